// What a job's own measurement of its network makes of a profile.
#include "sim/cost/measured_network.hpp"

#include "hw_profiles/load.hpp"
#include "sim/cost/nccl.hpp"
#include "tests/catch.hpp"

using namespace cost;

namespace {

hw_profiles::Profile h100() { return hw_profiles::find_profile("h100-sxm-80g").value(); }

MeasuredNetwork measured(std::int64_t gpus, double all_reduce, double gather) {
  return {gpus, core::BytesPerSecond(all_reduce * 1e9), core::BytesPerSecond(gather * 1e9)};
}

// Bus bandwidth of a gather over whole nodes of eight, GB/s.
double gather_gbs(const hw_profiles::Profile& profile, int nodes) {
  const Place place{.size = 8 * nodes, .nodes = nodes, .per_node = 8};
  const core::Seconds time =
      core::to_seconds(nccl_collective(program::Collective::all_gather, kMeasuredBytes, place,
                                       make_fabric(profile)).time);
  const double ranks = 8.0 * nodes;
  return static_cast<double>(kMeasuredBytes.value()) * (ranks - 1) / ranks / time.value() / 1e9;
}

}  // namespace

TEST_CASE("a gather that falls with the nodes tells a ring's hop") {
  hw_profiles::Profile profile = h100();
  use_measured_network(profile, measured(256, 190, 76));
  // 268 MB x 255/256 over 76 GB/s are 3.52 ms; 0.73 of them the bytes', 1.9 the steps inside nodes.
  CHECK(profile.node.internode_latency.value() == Approx(29e-6).epsilon(0.05));
  CHECK(profile.node.nccl_low_latency == false);
  CHECK_FALSE(profile.node.rank_wait.has_value());
  CHECK(gather_gbs(profile, 32) == Approx(76).epsilon(0.01));
  // 2 x 268 MB x 255/256 over 190 GB/s are 2.81 ms, shared by 256 ranks but for the wire's own.
  REQUIRE(profile.node.tree_wait.has_value());
  CHECK(profile.node.tree_wait->value() > 1e-6);
  CHECK(profile.node.tree_wait->value() < 2.81e-3 / 256);
}

TEST_CASE("a sum over late trees takes as much longer as was measured, whatever its size") {
  hw_profiles::Profile profile = h100();
  use_measured_network(profile, measured(256, 190, 76));
  const Place all{.size = 256, .nodes = 32, .per_node = 8};
  const auto sum = [&](core::Bytes bytes) {
    return core::to_seconds(nccl_collective(program::Collective::all_reduce, bytes, all,
                                            make_fabric(profile)).time).value();
  };
  const double bus = 2 * static_cast<double>(kMeasuredBytes.value()) * 255 / 256;
  CHECK(bus / sum(kMeasuredBytes) / 1e9 == Approx(190).epsilon(0.01));
  const double late = profile.node.tree_wait->value() * 256;
  for (const core::Bytes bytes : {core::mib(64), core::mib(1024)}) {
    const double with = sum(bytes);
    profile.node.tree_wait.reset();
    const double without = sum(bytes);
    profile.node.tree_wait = core::Seconds(late / 256);
    CHECK(with - without == Approx(late).epsilon(0.01));
  }
}

TEST_CASE("where no hop is so long, ranks are late") {
  // 268 MB x 127/128 over 27 GB/s are 9.86 ms: 128 ranks are late by more than 50 us each.
  hw_profiles::Profile profile = h100();
  use_measured_network(profile, measured(128, 51, 27));
  CHECK(profile.node.internode_latency == kLongestHop);
  REQUIRE(profile.node.rank_wait.has_value());
  CHECK(profile.node.rank_wait->value() == Approx(58e-6).epsilon(0.1));
}

TEST_CASE("a network as fast as its profile, and a job inside one node, change no latency") {
  const hw_profiles::Profile shipped = h100();
  for (const MeasuredNetwork& m : {measured(64, 400, 400), measured(8, 100, 50)}) {
    hw_profiles::Profile profile = shipped;
    use_measured_network(profile, m);
    CHECK(profile.node.internode_latency == shipped.node.internode_latency);
    CHECK_FALSE(profile.node.rank_wait.has_value());
  }
}
