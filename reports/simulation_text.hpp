#pragma once
// A simulated step as text: parts of the step, streams, the critical path, the peak of memory.
// Pure; thread-safe.

#include <optional>
#include <string>

#include "planner/plan/simulate.hpp"
#include "reports/text.hpp"

namespace reports {

std::string simulation_text(const planner::Simulation& simulation, TextStyle style);

// What the trace shows, where one was written, and the command to type next.
std::string next_text(const planner::Simulation& simulation, const std::string& plan_file,
                      const std::optional<std::string>& trace_file, TextStyle style);

}  // namespace reports
