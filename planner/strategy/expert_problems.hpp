#pragma once
// Internal: what dividing the experts of a mixture over ranks (expert, expert_tensor,
// expert_overlap) asks of a strategy. Pure.

#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/failures.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Adds a failure for each rule that does not hold. REQUIRES: degrees are at least 1.
void add_expert_problems(const models::ModelSpec& spec, const Job& job, const Strategy& strategy,
                         Failures& failures);

}  // namespace planner
