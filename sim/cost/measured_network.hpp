#pragma once
// What a job's own measurement of its network says of a profile: two bus bandwidths over all of its
// ranks (conventions of nccl-tests), of messages of one size. Beside what the profile's links
// explain:
//   nccl_low_latency   no, where a gather is slower than its links: such networks run Simple
//   internode_latency  a gather's excess, shared by its nodes, up to kLongestHop each: a ring's hop
//   rank_wait          what remains, shared by its ranks, from kLate each on: no hop is so long,
//                      and all kinds of collectives have it; ranks come late to all of them
//   tree_wait          what an all-reduce then takes longer, shared by its ranks
// One node tells nothing here. Pure; thread-safe.

#include <cstdint>

#include "core/units.hpp"
#include "hw_profiles/profile.hpp"

namespace cost {

// Of the published measurements: the size at which their gathers fall by one hop's time a node.
inline constexpr core::Bytes kMeasuredBytes = core::mib(256);
// EFA's hop is 79 to 90 us (hw_profiles/nodes/aws-p5.json, and the gathers of 512 H100 of
// runs_2.csv); of the ranks that come late each adds 40 us or more, of others 15 at most.
inline constexpr core::Seconds kLongestHop(50e-6), kLate(30e-6);

struct MeasuredNetwork {
  std::int64_t gpus = 1;
  core::BytesPerSecond all_reduce{}, gather{};  // bus bandwidth
  core::Bytes bytes = kMeasuredBytes;
};

void use_measured_network(hw_profiles::Profile& profile, const MeasuredNetwork& measured);

}  // namespace cost
