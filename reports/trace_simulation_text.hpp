#pragma once
// The page of execution traces played. Pure; thread-safe.

#include <string>

#include "planner/plan/simulate_traces.hpp"
#include "reports/text.hpp"

namespace reports {

std::string trace_simulation_text(const planner::TraceSimulation& simulation,
                                  TextStyle style = {});

}  // namespace reports
