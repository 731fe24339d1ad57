#pragma once
// Internal: what dividing the operators of an operator graph over ranks (split, splits) asks of a
// strategy. Pure.

#include "models/spec.hpp"
#include "planner/strategy/failures.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Adds a failure for each rule that does not hold. REQUIRES: degrees are at least 1.
void add_split_problems(const models::ModelSpec& spec, const Strategy& strategy,
                        Failures& failures);

}  // namespace planner
