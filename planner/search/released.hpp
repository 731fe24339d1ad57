#pragma once
// Released pins: what a user's own configuration could become. Pins are left out group by group
// (the batch, recomputation, sharding, the schedule, the degrees, ...) while all others are kept,
// and the best strategy of each space is found. So one question answers both "what does mine take"
// and "what is the best change to it". Pure; thread-safe.

#include <vector>

#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"

namespace planner {

// Groups of which the request pins a key, each left out alone: the best first (by rank_of); then
// all pins but those of the degrees, then all, each only where it is more than one group. Keys that
// only change together are left out together: with data pinned, tensor has one value. `mine` is
// what the request as it is was answered. Empty where nothing is pinned, or the request itself has
// no valid job. Each group is a search of its own, on as many threads as the request allows.
std::vector<Released> released_by(const Request& request, const Plan& mine);

}  // namespace planner
