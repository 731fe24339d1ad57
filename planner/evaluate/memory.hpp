#pragma once
// Memory of a program on a device: each class replayed, then what the device holds beside the
// program's buffers. device = reserved + waiting + workspace + context + communicators. Pure;
// thread-safe.

#include <optional>

#include "hw_profiles/profile.hpp"
#include "planner/evaluate/candidate.hpp"
#include "sim/program/program.hpp"

namespace planner {

// Whether a node's memory is known and does not hold what its ranks keep there: of_rank, the most
// that any rank does, on each of the node's GPUs that are used.
bool host_overflows(const hw_profiles::Node& node, std::int64_t gpus, core::Bytes of_rank);

// Placed as the profile's framework places buffers. Without want_reserved no address is computed,
// which is most of the work, and reserved is live: a lower bound.
Memory memory_of(const program::Program& program, const hw_profiles::Profile& profile,
                 bool want_reserved = true);

// The same of a step that fits its devices and hosts, and nothing of one that does not: addresses
// are computed until it has taken too much, of the fullest ranks first.
// estimates: addresses may be estimates (program::ReplayOptions), and ranks that are not nearly the
// fullest have none: their reserved is live. threads: as core::for_each_index;
// the answer does not depend on them.
std::optional<Memory> fitting_memory_of(const program::Program& program,
                                        const hw_profiles::Profile& profile,
                                        bool estimates = false, int threads = 1);

// Memory by which to say whether a step fits, and no more: addresses are computed of ranks alone
// whose live bytes leave that open. Too many do by themselves; so few do not that all which the
// allocator caches beside them would be returned to the device before a request failed.
// wanted: a stage whose addresses are computed whatever they decide.
Memory verdict_memory_of(const program::Program& program, const hw_profiles::Profile& profile,
                         std::optional<int> wanted = {});

}  // namespace planner
