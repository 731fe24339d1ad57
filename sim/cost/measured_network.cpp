#include "sim/cost/measured_network.hpp"

#include <algorithm>

#include "sim/cost/nccl.hpp"

namespace cost {

using program::Collective;

// Of nccl-tests: what a rank moves of S bytes, over the time.
static core::Seconds measured_time(Collective c, double ranks, core::Bytes bytes,
                                   core::BytesPerSecond bus) {
  const double passes = c == Collective::all_reduce ? 2 : 1;
  return bytes / bus * (passes * (ranks - 1) / ranks);
}

static core::Seconds model_time(Collective c, core::Bytes bytes, const Place& place,
                                const hw_profiles::Profile& profile) {
  return core::to_seconds(nccl_collective(c, bytes, place, make_fabric(profile)).time);
}

void use_measured_network(hw_profiles::Profile& profile, const MeasuredNetwork& measured) {
  hw_profiles::Node& node = profile.node;
  const Place place =
      place_of(0, measured.gpus, 1, std::max(1, node.gpus_per_node));
  if (place.nodes <= 1 || !profile.gpu.compute_capability) return;
  const double ranks = place.size, nodes = place.nodes;
  const core::Bytes bytes = measured.bytes;
  const core::Seconds gather = measured_time(Collective::all_gather, ranks, bytes, measured.gather);
  const auto excess = [&] {
    return (gather - model_time(Collective::all_gather, bytes, place, profile)).value();
  };
  if (excess() > 0) node.nccl_low_latency = false;
  const double hop = std::max(0.0, excess()) / (nodes - 1);
  node.internode_latency =
      std::min(node.internode_latency + core::Seconds(hop),
               std::max(kLongestHop, node.internode_latency));
  const core::Seconds late(excess() / ranks);
  if (late >= kLate) node.rank_wait = late;
  const core::Seconds waits = node.rank_wait.value_or(core::Seconds{}) * ranks;
  const core::Seconds reduce =
      measured_time(Collective::all_reduce, ranks, bytes, measured.all_reduce) - waits;
  const core::Seconds late_sum = reduce - model_time(Collective::all_reduce, bytes, place, profile);
  if (late_sum.value() > 0) node.tree_wait = late_sum / ranks;
}

}  // namespace cost
