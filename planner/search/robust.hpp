#pragma once
// Robust choice: finalists ranked by how long their steps take when ranks and links are slow at
// random (planner/evaluate/variation.hpp), instead of when nothing is. Every finalist meets the
// same scenarios.
//
// The sweep says by which factor the stated quantile of the steps of a candidate is longer than its
// step without slow ranks; the candidate's predicted step times this factor is what counts. Pure:
// the same request gives the same plan on any number of threads.

#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "planner/search/explorer.hpp"
#include "planner/search/search.hpp"

namespace planner {

// What was found of the candidates, in their order. Lowers each again.
// O(candidates x unlike scenarios x a sweep).
std::vector<RobustStep> robust_steps(Explorer& explorer, const Request& request,
                                     const std::vector<Candidate>& candidates);

// As order_by_preference, by the robust steps; puts `steps` in the same order.
Because order_by_robust_step(std::vector<Candidate>& candidates, std::vector<RobustStep>& steps,
                             const Job& job, const Request& request);

}  // namespace planner
