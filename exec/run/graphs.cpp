#include "exec/run/graphs.hpp"

namespace exec {

// The first step finds places and sizes, the last is looked into: both are given action by action.
constexpr std::int64_t kFewestSteps = 3;

std::string why_no_graphs(const program::Program& program, const planner::Candidate& candidate,
                          const RunOptions& options, std::int64_t resumed) {
  if (options.graphs == Graphs::off) return "--graphs off";
  if (options.platform == nullptr) return "the host has none";
  const bool several = program.mesh.ranks() > 1;
  if (several && options.processes == nullptr)
    return "ranks that share a GPU wait for each other on the host";
  if (several && options.processes->calls_wait())
    return "messages of --communicator " + options.processes->name() + " pass through the host";
  if (program.servers > 0) return "what parameter servers answer leaves beside the steps";
  if (!program.classes.front().schedule.flushes)
    return "passes of several steps are under way at once";
  if (options.steps - resumed < kFewestSteps)
    return "fewer than " + std::to_string(kFewestSteps) + " steps";
  if (options.graphs == Graphs::automatic && !candidate.time.launch_bound)
    return "the step is not launch-bound by its prediction";
  if (options.graphs == Graphs::automatic && several)
    return "several GPUs have not run any yet: --graphs on keeps steps";
  return {};
}

core::Problems graph_problems(const program::Program& program, const planner::Candidate& candidate,
                              const RunOptions& options, std::int64_t resumed) {
  if (options.graphs != Graphs::on) return {};
  const std::string why = why_no_graphs(program, candidate, options, resumed);
  if (why.empty()) return {};
  return {{"--graphs on",
           "--backend cuda with one rank or --communicator nccl, at least " +
               std::to_string(kFewestSteps) + " --steps",
           why,
           "use --graphs auto"}};
}

std::string graphs_text(const std::string& why_not, const KeptSteps& kept, std::int64_t steps) {
  if (!why_not.empty()) return "off: " + why_not;
  if (!kept.refused.empty()) return "off: " + kept.refused;
  return "on: " + std::to_string(kept.replayed) + " of " + std::to_string(steps) + " steps";
}

}  // namespace exec
