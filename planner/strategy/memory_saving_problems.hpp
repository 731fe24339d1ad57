#pragma once
// Internal: what offload and loss_chunks, which save memory, ask of a strategy. Pure.

#include "core/result.hpp"
#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Appends a problem for each rule that does not hold. REQUIRES: degrees are at least 1.
void add_memory_saving_problems(const models::ModelSpec& spec, const Job& job,
                                const Strategy& strategy, core::Problems& problems);

}  // namespace planner
