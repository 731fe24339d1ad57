#pragma once
// Internal: what statistics of batch norms over all data ranks (batch_norm=synchronised) ask of a
// strategy. Pure.

#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/failures.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Adds a failure for each rule that does not hold. REQUIRES: degrees are at least 1.
void add_batch_norm_problems(const models::ModelSpec& spec, const Job& job,
                             const Strategy& strategy, Failures& failures);

}  // namespace planner
