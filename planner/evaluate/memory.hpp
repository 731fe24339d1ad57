#pragma once
// Memory of a program on a device: each class replayed, then what the device holds beside the
// program's buffers. device = reserved + waiting + workspace + context + communicators. Pure;
// thread-safe.

#include <optional>

#include "hw_profiles/profile.hpp"
#include "planner/evaluate/candidate.hpp"
#include "sim/program/program.hpp"

namespace planner {

// GPU memory of NCCL's buffers: channels x 12 MiB (a send and a receive connection of Hopper's
// protocol buffers, 2 + 10 MiB) for each group that the class communicates in. 24 channels under
// NVSwitch, 4 over NVLink pairs or PCIe; none where transfers are staged through the host, whose
// buffers lie in host memory. Source: NVIDIA/nccl v2.28.9, src/transport/p2p.cc; counts of 8-GPU
// nodes, NCCL issues 964 and 1685.
core::Bytes communicator_bytes(const program::Program& program,
                               const program::RankClass& rank_class,
                               const hw_profiles::Profile& profile);

// groups: communicators of more than one rank.
core::Bytes communicator_bytes(int groups, const hw_profiles::Profile& profile);

// Bytes of a device that no buffer of the program may use.
core::Bytes overhead_bytes(const program::Program& program, const program::RankClass& rank_class,
                           const hw_profiles::Profile& profile);
core::Bytes overhead_bytes(int groups, const hw_profiles::Profile& profile);

// Whether a node's memory is known and does not hold what its ranks keep there: of_rank, the most
// that any rank does, on each of the node's GPUs that are used.
bool host_overflows(const hw_profiles::Node& node, std::int64_t gpus, core::Bytes of_rank);

// Placed as the profile's framework places buffers. Without want_reserved no address is computed,
// which is most of the work, and reserved is live: a lower bound.
Memory memory_of(const program::Program& program, const hw_profiles::Profile& profile,
                 bool want_reserved = true);

// The same of a step that fits its devices and hosts, and nothing of one that does not: addresses
// are computed until it has taken too much, of the fullest ranks first.
// estimates: addresses may be estimates (program::ReplayOptions).
std::optional<Memory> fitting_memory_of(const program::Program& program,
                                        const hw_profiles::Profile& profile,
                                        bool estimates = false);

// Memory by which to say whether a step fits, and no more: addresses are computed of ranks alone
// whose live bytes leave that open. Too many do by themselves; so few do not that all which the
// allocator caches beside them would be returned to the device before a request failed.
Memory verdict_memory_of(const program::Program& program, const hw_profiles::Profile& profile);

}  // namespace planner
