#pragma once
// Internal: what weights that are gathered in 8 bits (fp8_tensors: params) ask of a strategy. Pure.

#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/failures.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Appends a problem for each rule that does not hold.
void add_fp8_problems(const models::ModelSpec& spec, const Job& job, const Strategy& strategy,
                      Failures& failures);

}  // namespace planner
