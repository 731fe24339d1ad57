#pragma once
// Runs of a plan over MPI, as the front door sees them: whether this process is one of a job that a
// launcher started, and else starting one. Links no MPI.

#include "core/result.hpp"
#include "cli/verbs.hpp"

namespace cli {

// Whether a launcher (mpirun, srun) has made this process one of several.
bool joins_mpi_job();

// Starts one process for each rank of the plan and follows them until all have ended. Problems
// (failed_running): what is missing, or why the run failed. Throws Ended when a rank said why.
core::Result<exec::RunRecord> launch_mpi(const planner::Plan& plan, const RunRequest& request);

}  // namespace cli
