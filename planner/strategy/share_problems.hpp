#pragma once
// Internal: what different numbers of micro-batches on data ranks (Strategy::shares) ask of a
// strategy. Pure.

#include "planner/question/job.hpp"
#include "planner/strategy/failures.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Adds a failure for each rule that does not hold. REQUIRES: degrees are at least 1.
void add_share_problems(const Job& job, const Strategy& strategy, Failures& failures);

}  // namespace planner
