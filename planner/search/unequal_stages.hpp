#pragma once
// Internal: stages of layers that differ, on GPUs that are alike (stages.hpp). Pure; thread-safe.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/search/stage_sums.hpp"
#include "planner/search/stages.hpp"

namespace planner {

// As divide(). sums: of the loads. REQUIRES: no equal layers in one load, no paces, and no stage
// that keeps more micro-batches than the one before it.
std::optional<std::vector<std::int64_t>> divide_unequal(const StageLoads& loads,
                                                        const StageSums& sums,
                                                        const StageLimits& limits);

}  // namespace planner
