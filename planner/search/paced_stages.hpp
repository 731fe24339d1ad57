#pragma once
// Internal: pipeline boundaries over GPUs of several kinds (stages.hpp): the loads are those of the
// first kind, each stage takes them at its own pace. Pure; thread-safe.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/search/stages.hpp"

namespace planner {

// As divide(). REQUIRES: a pace for each stage.
std::optional<std::vector<std::int64_t>> divide_paced(const StageLoads& loads,
                                                      const StageLimits& limits);

}  // namespace planner
