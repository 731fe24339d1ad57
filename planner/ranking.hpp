#pragma once
// Internal: from evaluated entries to what a plan prints. Every printed candidate is replayed and
// checked against the device. Not thread-safe (Explorer).

#include <vector>

#include "planner/explorer.hpp"
#include "planner/search.hpp"

namespace planner {

// Indices of the entries, best first: by the objective, then less memory, then simpler, then in
// order of enumeration.
std::vector<std::size_t> ranking(const std::vector<Entry>& entries, Objective objective);

// Fills chosen, alternatives and pareto. Alternatives differ from each other and from the choice in
// data, tensor, pipeline, sharding or checkpoint.
void choose(Explorer& explorer, const Request& request, Plan& plan);

// Fills rejected and rejected_per_limit: plain data parallelism first, then the simplest; each
// with the cheapest single change that fits.
void explain_rejections(Explorer& explorer, Plan& plan);

}  // namespace planner
