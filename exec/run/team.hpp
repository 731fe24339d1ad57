#pragma once
// Team: what the processes of a run tell each other before and after it. With ranks that are
// threads (`processes` null) everything is at hand and nothing is said. Collective, every one.

#include <vector>

#include "core/result.hpp"
#include "exec/checkpoint/rank_file.hpp"
#include "exec/communicator/processes.hpp"
#include "exec/interpret/step_log.hpp"
#include "exec/run/rank_report.hpp"

namespace exec {

// The problems of the lowest rank that has any, on all of them: one mistake is told once.
core::Problems agreed(Processes* processes, const core::Problems& mine);

// By rank: that of this process goes to all others.
void share(Processes& processes, std::vector<RankReport>& reports);
void share(Processes& processes, std::vector<StepLog>& logs);

// One value of each rank, by rank.
std::vector<std::int64_t> share(Processes& processes, std::int64_t mine);
std::vector<RankFile> share(Processes& processes, const RankFile& mine);

}  // namespace exec
