#pragma once
// A simulated step as text: parts of the step, streams, the critical path, the peak of memory.
// Pure; thread-safe.

#include <string>

#include "planner/simulate.hpp"
#include "reports/text.hpp"

namespace reports {

std::string simulation_text(const planner::Simulation& simulation, TextStyle style);

}  // namespace reports
