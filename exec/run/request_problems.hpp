#pragma once
// What is wrong with a request to run a plan, before anything runs: one function for each thing
// that is known by then. Pure but for platform_of().

#include <vector>

#include "exec/run/run.hpp"
#include "sim/program/program.hpp"

namespace exec {

// The platform that the options name; the host where they name none.
Platform& platform_of(const RunOptions& options);

// Of the options beside the plan.
core::Problems option_problems(const planner::Plan& plan, const RunOptions& options);
// One process for each rank, no more and no fewer; as threads, not too many.
core::Problems rank_problems(const planner::Plan& plan, const Processes* processes);
// Where streams are given work in the order of the Program, nothing can wait for who comes first.
core::Problems turn_problems(const program::Program& program, const Processes* processes);
// Without flush, so many steps that the pipeline is full in one of them.
core::Problems step_problems(const program::Program& program, const planner::Strategy& strategy,
                             const RunOptions& options);

// The ranks that are in this machine's memory at once: all, or those of its processes.
std::vector<int> ranks_here(const program::Program& program, const Processes* processes);

}  // namespace exec
