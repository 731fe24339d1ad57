#include "exec/run/request_problems.hpp"

#include <numeric>

#include "sim/program/turns.hpp"

namespace exec {

Platform& platform_of(const RunOptions& options) {
  return options.platform != nullptr ? *options.platform : host_platform();
}

core::Problems option_problems(const planner::Plan& plan, const RunOptions& o) {
  core::Problems problems;
  const std::string name(platform_of(o).name());
  if (o.backend != name)
    problems.push_back({"--backend", name, "\"" + o.backend + "\"", "use --backend " + name});
  const std::string here = o.processes != nullptr ? o.processes->name() : "local";
  if (o.communicator != here)
    problems.push_back({"--communicator", here, "\"" + o.communicator + "\"",
                        "use --communicator " + here});
  if (o.steps < 1)
    problems.push_back({"--steps", "at least 1", std::to_string(o.steps), ""});
  if (candidate_of(plan, o.candidate.value_or(0)) == nullptr)
    problems.push_back({"--candidate", "0 (the chosen one) or 1 to " +
                                           std::to_string(plan.alternatives.size()),
                        std::to_string(o.candidate.value_or(0)),
                        plan.chosen ? "" : "the plan has no feasible candidate"});
  for (core::Problem& p : training_problems(o.training, plan.job.optimizer, o.steps))
    problems.push_back(std::move(p));
  if (plan.job.mode == planner::Mode::inference)
    problems.push_back({"mode", "train or finetune", "inference",
                        "plan a training job: the executor trains"});
  return problems;
}

std::vector<int> ranks_here(const program::Program& p, const Processes* processes) {
  if (processes != nullptr) return processes->neighbours();
  std::vector<int> all(static_cast<std::size_t>(p.mesh.ranks()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

core::Problems rank_problems(const planner::Plan& plan, const Processes* processes) {
  constexpr int kMostRanks = 256;  // threads of one process
  if (processes == nullptr && plan.gpus > kMostRanks)
    return {{"plan gpus", "at most " + std::to_string(kMostRanks) + " ranks on one host",
             std::to_string(plan.gpus), "plan fewer --gpus"}};
  if (processes != nullptr && plan.gpus != processes->ranks())
    return {{"--communicator " + processes->name(),
             std::to_string(plan.gpus) + " processes, one for each rank of the plan",
             std::to_string(processes->ranks()),
             processes->name() == "mpi"
                 ? "start them with mpirun -n " + std::to_string(plan.gpus) +
                       ", or leave the starting to planner"
                 : "start as many, or unset RANK and WORLD_SIZE and leave it to planner"}};
  return {};
}

core::Problems turn_problems(const program::Program& p, const Processes* processes) {
  if (processes == nullptr || processes->calls_wait() || !program::takes_turns(p)) return {};
  return {{"server_mode", "sync over --communicator " + processes->name(), "async",
           "plan with --pin server_mode=sync, or run it with --communicator tcp on the host"}};
}

core::Problems step_problems(const program::Program& p, const planner::Strategy& s,
                             const RunOptions& o) {
  const std::int64_t fewest = p.classes.front().schedule.draining_steps() + 1;
  if (o.steps >= fewest) return {};
  return {{"--steps",
           "at least " + std::to_string(fewest) + " with schedule=" +
               std::string(planner::name(s.schedule)),
           std::to_string(o.steps),
           "fewer never fill its pipeline: ask for more, or plan with --pin schedule=1f1b"}};
}

}  // namespace exec
