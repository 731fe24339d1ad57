#pragma once
// One rank's Chakra execution trace with recorded durations, as a log of one step: its nodes are
// played in the order of their dependencies, and transfers take as long as they did. Thread-safe;
// pure.

#include <string>
#include <string_view>

#include "reports/logs/training_log.hpp"

namespace reports::logs {

// By its name, which ends in ".et".
bool is_execution_trace(std::string_view name);

// Problems: those of engine::read_chakra and of playing; a node that has work and no duration.
core::Result<TrainingLog> read_execution_trace(std::string_view bytes, const std::string& name);

}  // namespace reports::logs
