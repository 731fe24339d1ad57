#pragma once
// One rank of a run whose ranks are processes, whatever joins them. Rank 0 has the command line: it
// reads the plan, tells the others what to run, and delivers the record; they read no arguments and
// say nothing.

#include <functional>

#include "cli/verbs.hpp"
#include "exec/communicator/processes.hpp"

namespace cli {

struct RankOptions {
  std::function<void(const RunRequest&)> prepare;  // before the run, on every rank; may be empty
  // Runs the plan in place of the host, on every rank; may be empty. `world` joins the ranks.
  std::function<core::Result<exec::RunRecord>(exec::Processes& world, const planner::Plan&,
                                              const RunRequest&)>
      run;
  // Whoever started this rank follows all ranks and lets them end by themselves.
  bool followed = false;
};

// Ends the process.
[[noreturn]] void be_rank(exec::Processes& world, const RankOptions& options, int count,
                          char** arguments);

}  // namespace cli
