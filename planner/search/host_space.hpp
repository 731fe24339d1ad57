#pragma once
// Internal: what the memory of the hosts adds to a space. Offloading only adds transfers, and it
// takes memory that a cluster may not have to spare: unasked, it is searched where nothing fits
// without it, or little, and nothing is pinned. First the optimizer's state goes there, then what
// needs least of a device. Pure; thread-safe.

#include <vector>

#include "planner/search/space.hpp"

namespace planner {

// The structures of a space with their optimizer's state on the host, but those that have none
// (inference, parameter servers), that offload something already, or that a constraint forbids.
std::vector<Structure> with_host_optimizer(std::vector<Structure> plain, const Job& job,
                                           const Constraints& constraints);

// Every layer recomputed, parameters with all that belongs to them on the host (zero3), then
// activations too. Of each pair of tensor and pipeline degrees. O(plain).
std::vector<Structure> with_host_parameters(const std::vector<Structure>& plain, const Job& job,
                                            const Constraints& constraints);

}  // namespace planner
