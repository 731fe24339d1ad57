#pragma once
// Ranks that are threads of this process, and yet joined as processes are: each has a world of its
// own (TCP, over this machine's loopback), and ends as its world ends.

#include <functional>

#include "core/result.hpp"
#include "exec/communicator/processes.hpp"
#include "exec/record/run_record.hpp"

namespace cli {

using RankThread = std::function<core::Result<exec::RunRecord>(exec::Processes& world)>;

// Runs body once for each rank, and returns what rank 0's returned. A signal of the process ends
// all of them, and then the process. Throws exec::RunFailure with the reason that the ranks agreed
// on, where one of them failed.
core::Result<exec::RunRecord> run_rank_threads(int ranks, const RankThread& body);

}  // namespace cli
