#pragma once
// Runs of a plan as processes joined by TCP, as the front door sees them: whether this process is
// one of a job that a launcher started, and else starting one here. Links no executor.

#include <string>

#include "cli/verbs.hpp"
#include "core/result.hpp"

namespace cli {

// Whether a launcher (torchrun, srun, mpirun, Kubernetes) has made this process one of several.
bool joins_tcp_job();

// What all ranks of one run share, and nobody else knows.
std::string new_secret();
// Before ranks with a GPU each open it, here or in processes that this one starts: a kernel's code
// that is loaded when it is first launched may wait for the device, which may be waiting for a peer
// whose code is being loaded. What the environment says stays.
void load_kernels_first();

// Starts one process for each rank of the plan on this machine, and follows them until all have
// ended. Problems (failed_running): what is missing, or why the run failed. Throws Ended
// (rank_launch.hpp) when a rank said why.
core::Result<exec::RunRecord> launch_tcp(const planner::Plan& plan, const RunRequest& request);

}  // namespace cli
