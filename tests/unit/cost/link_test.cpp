#include "sim/cost/link.hpp"

#include "hw_profiles/load.hpp"
#include "sim/cost/nccl.hpp"
#include "tests/catch.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"

using namespace cost;
using core::DType;
using program::Algorithm;
using program::Collective;

namespace {
constexpr std::int64_t kElements = 1'000'000;  // 4 MB of f32
double time(Collective c, Algorithm a, Place place) {
  return collective_time(c, a, place, kElements, DType::f32, round_machine()).value();
}
}  // namespace

TEST_CASE("a ring all-reduce in a node takes 2(K-1) hops and 2(K-1)/K of the payload") {
  // K = 4: 6 hops of 1 us; 4 MB x 6/4 = 6 MB at 100 GB/s = 60 us.
  CHECK(time(Collective::all_reduce, Algorithm::ring, {4, 1, 4}) == Approx(66e-6));
  // Reduce-scatter and all-gather are half of it.
  CHECK(time(Collective::reduce_scatter, Algorithm::ring, {4, 1, 4}) == Approx(33e-6));
  CHECK(time(Collective::all_gather, Algorithm::ring, {4, 1, 4}) == Approx(33e-6));
}

TEST_CASE("naive all-reduce sends the whole vector to every other rank") {
  // 3 messages, under way together, 1 us; 4 MB x 3 = 12 MB at 100 GB/s = 120 us.
  CHECK(time(Collective::all_reduce, Algorithm::naive_all_reduce, {4, 1, 4}) == Approx(121e-6));
}

TEST_CASE("a tree all-reduce passes two children's vectors per level, up and down") {
  // 3 ranks: one level, two children: 2 x (1 us + 8 MB / 100 GB/s) = 162 us.
  CHECK(time(Collective::all_reduce, Algorithm::tree, {3, 1, 3}) == Approx(162e-6));
  // 2 ranks: one child: 2 x (1 + 40) us.
  CHECK(time(Collective::all_reduce, Algorithm::tree, {2, 1, 2}) == Approx(82e-6));
}

TEST_CASE("a group over nodes has its share of the network") {
  // 8 ranks on 2 full nodes: the ring has the node's 40 GB/s; 14 steps, 2 of them over the network:
  // 12 x 1 + 2 x 10 = 32 us; 4 MB x 14/8 = 7 MB at 40 GB/s = 175 us.
  CHECK(time(Collective::all_reduce, Algorithm::ring, {8, 2, 4}) == Approx(207e-6));
  // 2 ranks, one per node of 4: a quarter of the network, 10 GB/s. 2 x 10 us + 4 MB / 10 GB/s.
  CHECK(time(Collective::all_reduce, Algorithm::ring, {2, 2, 1}) == Approx(420e-6));
}

TEST_CASE("an exchange sends each rank its part, inside and over the network at once") {
  // 4 ranks, 1 MB each: a hop of 1 us, for all at once; 3 MB at 100 GB/s = 30 us.
  CHECK(time(Collective::exchange, Algorithm::pairwise, {4, 1, 4}) == Approx(31e-6));
  // 8 ranks on 2 full nodes, 0.5 MB each: 10 us; 3 parts inside take 15 us, 4 x 4 parts of a
  // node at 40 GB/s 200 us.
  CHECK(time(Collective::exchange, Algorithm::pairwise, {8, 2, 4}) == Approx(210e-6));
}

TEST_CASE("a send is one hop and the payload, and a group of one is free") {
  CHECK(time(Collective::send, Algorithm::direct, {2, 1, 2}) == Approx(41e-6));
  // Round a ring all go at once. Over two nodes of 4 each node's 40 GB/s carry one of the messages.
  CHECK(time(Collective::send, Algorithm::ring, {4, 1, 4}) == Approx(41e-6));
  CHECK(time(Collective::send, Algorithm::ring, {8, 2, 4}) == Approx(110e-6));
  CHECK(time(Collective::send, Algorithm::ring, {1, 1, 1}) == 0);
  CHECK(time(Collective::all_reduce, Algorithm::ring, {1, 1, 1}) == 0);
}

TEST_CASE("a server takes all pushes over one link") {
  // 3 pushes of 4 MB: 12 MB at 100 GB/s + 1 us.
  CHECK(incast_time({4, 1, 4}, 3, core::Bytes{4'000'000}, round_machine()).value() ==
        Approx(121e-6));
}

TEST_CASE("groups lie where the mesh's strides put them") {
  program::Mesh mesh;
  mesh.tensor = 2;
  mesh.data = 4;
  mesh.pipeline = 1;
  const Place tensor = place_of(mesh, program::Group::tensor, 0, 4);
  CHECK(tensor.size == 2);
  CHECK(tensor.nodes == 1);
  const Place data = place_of(mesh, program::Group::data, 0, 4);
  CHECK(data.size == 4);
  CHECK(data.nodes == 2);
  CHECK(data.per_node == 2);
}

TEST_CASE("a bridge serves its own pair and nobody else") {
  Machine m = round_machine();
  m.pair = core::BytesPerSecond{400e9};
  m.pair_latency = core::Seconds{0.5e-6};
  const auto ring = [&](Place place) {
    return collective_time(Collective::all_reduce, Algorithm::ring, place, kElements, DType::f32, m)
        .value();
  };
  // Two ranks: 2 hops; 4 MB x 2/2. Bridged 2 x 0.5 + 10 us, else 2 x 1 + 40 us.
  CHECK(ring({2, 1, 2, true}) == Approx(11e-6));
  CHECK(ring({2, 1, 2, false}) == Approx(42e-6));
  CHECK(ring({4, 1, 4, false}) == Approx(66e-6));
}

TEST_CASE("adjacent ranks are a pair, ranks two apart are not") {
  program::Mesh mesh;
  mesh.tensor = 2;
  mesh.data = 2;
  CHECK(place_of(mesh, program::Group::tensor, 0, 4).paired);
  CHECK_FALSE(place_of(mesh, program::Group::data, 0, 4).paired);
}

TEST_CASE("rings on GPUs take NCCL's time, with the protocol that it would choose") {
  const hw_profiles::Profile profile = *hw_profiles::find_profile("a100-sxm-80g");
  const Machine a100 = make_machine(profile, {});
  const Place node{8, 1, 8};
  for (std::int64_t elements : {1'000, 1'000'000, 100'000'000}) {
    const CollectiveCost nccl =
        nccl_collective(Collective::all_reduce, core::Bytes(4 * elements), node,
                        make_fabric(profile), Method::ring);
    CHECK(collective_time(Collective::all_reduce, Algorithm::ring, node, elements, DType::f32, a100)
              .value() == Approx(core::to_seconds(nccl.time).value()));
  }
}

TEST_CASE("a group that begins inside a node is cut where the node ends") {
  // Ranks 2, 3, 4, 5 on nodes of 4: two and two. Ranks 1, 3, 5, 7: two and two.
  CHECK(place_of(2, 4, 1, 4).nodes == 2);
  CHECK(place_of(2, 4, 1, 4).per_node == 2);
  CHECK(place_of(1, 4, 2, 4).per_node == 2);
  // Ranks 3 .. 10: one, four, three.
  CHECK(place_of(3, 8, 1, 4).nodes == 3);
  CHECK(place_of(3, 8, 1, 4).per_node == 4);
  // A distance of 3 on nodes of 8: 0, 3, 6 | 9, 12, 15.
  CHECK(place_of(0, 6, 3, 8).nodes == 2);
  CHECK(place_of(0, 6, 3, 8).per_node == 3);
}

TEST_CASE("what NCCL is assumed to run is what the time is of, or nothing") {
  const Machine a100 = make_machine(*hw_profiles::find_profile("a100-sxm-80g"), {});
  const Place node{8, 1, 8};
  const auto assumed = [&](Collective c, Algorithm a, const Place& place, core::Bytes bytes) {
    return nccl_assumed(c, a, place, bytes, a100);
  };
  const auto small = assumed(Collective::all_reduce, Algorithm::ring, node, core::Bytes(4096));
  const auto large = assumed(Collective::all_reduce, Algorithm::ring, node, core::gib(1));
  REQUIRE(small);
  REQUIRE(large);
  CHECK(small->method == Method::ring);
  CHECK(small->protocol == Protocol::ll);
  CHECK(large->protocol == Protocol::simple);
  CHECK(large->channels == 24);        // of an A100's NVLink (linked_channels)
  CHECK(collective_time(Collective::all_gather, Algorithm::ring, node, 1 << 20, DType::f32, a100) ==
        core::to_seconds(assumed(Collective::all_gather, Algorithm::ring, node,
                                 core::mib(4))->time));
  // Over nodes small sums go through trees.
  const auto far =
      assumed(Collective::all_reduce, Algorithm::ring, {64, 8, 8}, core::Bytes(4096));
  REQUIRE(far);
  CHECK(far->method == Method::tree);
  // The Program's own tree, messages and a group of one have no such model; nor has a host.
  CHECK_FALSE(assumed(Collective::all_reduce, Algorithm::tree, node, core::gib(1)));
  CHECK_FALSE(assumed(Collective::send, Algorithm::ring, node, core::gib(1)));
  CHECK_FALSE(assumed(Collective::all_reduce, Algorithm::ring, {1, 1, 1}, core::gib(1)));
  CHECK_FALSE(nccl_assumed(Collective::all_reduce, Algorithm::ring, node, core::gib(1),
                           round_machine()));
}

TEST_CASE("sums in the switch have the channels that NCCL gives them") {
  const Fabric h100 = make_fabric(*hw_profiles::find_profile("h100-sxm-80g"));
  CHECK(nccl_collective(Collective::all_reduce, core::gib(1), {8, 1, 8}, h100, Method::nvls)
            .channels == nvls_channels(h100));
}
