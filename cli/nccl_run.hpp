#pragma once
// Runs of a plan over NCCL: one rank of several that are processes, or all of them as threads of
// this process. Each has a GPU of its own.

#include "cli/cuda_runner.hpp"
#include "cli/verbs.hpp"
#include "exec/communicator/processes.hpp"

namespace cli {

// One rank, which `control` joins to the others. What one of them lacks all of them say.
core::Result<exec::RunRecord> run_over_nccl(exec::Processes& control, const planner::Plan& plan,
                                            const RunRequest& request, const OpenDevice& open);

// All ranks, on GPUs 0, 1, ... of those that the driver shows. Throws exec::RunFailure.
core::Result<exec::RunRecord> run_nccl_threads(const planner::Plan& plan, const RunRequest& request,
                                               const OpenDevice& open);

}  // namespace cli
