#pragma once
// What many ranks train against what one rank trains, where they sum in another order: within a
// bound of rounding; what ranks hold alike, to the bit.

#include "tests/property/check_equal.hpp"

namespace tests {

// Of double precision: sums of at most about 10^3 terms, each rounded at 1.1e-16, through 4 layers
// and 2 steps.
inline constexpr double kDoubleTolerance = 1e-12;

// One rank on 12 samples at once.
ReferenceResult single_rank(const planner::Job& job, const models::ModelSpec& spec);

// What the executor trains on one rank, micro_batch samples at a time: of models that the reference
// lacks.
ReferenceResult one_rank(const models::ModelSpec& spec, const planner::Job& job,
                         std::int64_t micro_batch = 1);

// Losses within `loss_tolerance` of the expected, parameters within `tolerance` of their greatest
// magnitude.
void check_close(const models::ModelSpec& spec, const planner::Job& job,
                 const ReferenceResult& expected, const planner::Strategy& s,
                 double loss_tolerance, double tolerance, std::int64_t steps = kSteps);

}  // namespace tests
