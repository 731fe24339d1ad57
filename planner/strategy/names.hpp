#pragma once
// Internal: names of a Strategy's enumerators, in their order, but for schedules
// (schedule_table.hpp); strategy.cpp and keys.cpp read them.

#include <array>
#include <string_view>

#include "planner/strategy/strategy.hpp"

namespace planner {

inline constexpr std::array<std::string_view, 4> kShardingNames{"none", "zero1", "zero2", "zero3"};
inline constexpr std::array<std::string_view, kCheckpoints> kCheckpointNames{
    "none", "every_k", "selective", "memory_poor", "selective_op", "pointwise",
    "first_k", "modules"};
inline constexpr std::array<std::string_view, 5> kGradSyncNames{
    "auto", "ring", "tree", "naive_all_reduce", "parameter_server"};
inline constexpr std::array<std::string_view, 2> kServerModeNames{"sync", "async"};
inline constexpr std::array<std::string_view, 4> kDegreeNames{"tensor", "context", "data",
                                                              "pipeline"};
inline constexpr std::array<std::string_view, 3> kContextMethodNames{"gather", "ring", "exchange"};
inline constexpr std::array<std::string_view, 2> kExpertDispatchNames{"all_to_all", "deepep"};
inline constexpr std::array<std::string_view, 2> kBatchNormNames{"local", "synchronised"};
inline constexpr std::array<std::string_view, 2> kPartitionNames{"layers", "operators"};

}  // namespace planner
