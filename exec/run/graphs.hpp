#pragma once
// Which runs keep a step as a graph of the device and give it again, and what their record says.

#include "exec/interpret/interpreter.hpp"
#include "exec/run/run.hpp"
#include "planner/evaluate/candidate.hpp"

namespace exec {

// Why the steps [resumed, options.steps) are given action by action; empty: a step is kept.
std::string why_no_graphs(const program::Program& program, const planner::Candidate& candidate,
                          const RunOptions& options, std::int64_t resumed);
// Where --graphs on asks for what cannot be.
core::Problems graph_problems(const program::Program& program, const planner::Candidate& candidate,
                              const RunOptions& options, std::int64_t resumed);
// The record's line. REQUIRES: a backend apart from the host.
std::string graphs_text(const std::string& why_not, const KeptSteps& kept, std::int64_t steps);

}  // namespace exec
