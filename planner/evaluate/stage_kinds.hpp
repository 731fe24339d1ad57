#pragma once
// Which GPUs the ranks of a pipeline stage have, where a machine has several kinds. Pure;
// thread-safe.

#include <cstdint>

#include "planner/evaluate/evaluate.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/cost/mixed.hpp"

namespace planner {

// Where pipeline is not the outermost degree, each stage has ranks of all kinds. REQUIRES: the
// question's machine has several kinds.
cost::KindsOfRanks kinds_of_stage(const Question& question, const Strategy& strategy,
                                  std::int64_t stage);

}  // namespace planner
