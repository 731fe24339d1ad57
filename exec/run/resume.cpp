#include "exec/run/resume.hpp"

#include "core/json.hpp"
#include "exec/run/team.hpp"
#include "models/spec_file.hpp"
#include "planner/evaluate/candidate_json.hpp"

namespace exec {
namespace {

// Rank 0 opens it, and then the other processes join.
core::Result<CheckpointFolder> open_folder(const RunOptions& options, const TrainedOn& what,
                                           int ranks) {
  const std::string& path = *options.checkpoint_dir;
  Processes* const processes = options.processes;
  if (processes == nullptr) return CheckpointFolder::open(path, what, ranks, options.set_aside);
  std::optional<core::Result<CheckpointFolder>> folder;
  if (processes->rank() == 0)
    folder.emplace(CheckpointFolder::open(path, what, ranks, options.set_aside));
  core::Problems problems =
      agreed(processes, folder && !folder->ok() ? folder->problems() : core::Problems{});
  if (!problems.empty()) return problems;
  const std::int64_t steps = share(*processes, folder ? (*folder)->steps_done() : 0).front();
  if (!folder)
    folder.emplace(CheckpointFolder::join(path, what, ranks, steps, processes->rank()));
  problems = agreed(processes, folder->ok() ? core::Problems{} : folder->problems());
  if (!problems.empty()) return problems;
  return std::move(*folder);
}

}  // namespace

TrainedOn trained_on(const planner::Plan& plan, const planner::Strategy& strategy,
                     const RunOptions& options, const DataSource& data) {
  TrainedOn what{{"model", models::spec_to_json(plan.model, 0)},
                 {"job", core::dump(planner::to_json(plan.job), 0)},
                 {"strategy", planner::to_text(strategy)},
                 {"seed", std::to_string(options.seed)},
                 {"data", data.identity()}};
  // The defaults are not stated: checkpoints from before there was a choice were trained with them.
  const planner::OptimizerKind optimizer = plan.job.optimizer;
  const std::string training =
      to_text(training_of(options.training, optimizer, options.steps), optimizer);
  if (training != to_text(default_training(optimizer), optimizer))
    what.emplace_back("training", training);
  return what;
}

core::Result<std::optional<CheckpointFolder>> open_checkpoints(const RunOptions& options,
                                                               const TrainedOn& what, int ranks) {
  if (!options.checkpoint_dir) return std::optional<CheckpointFolder>();
  auto folder = open_folder(options, what, ranks);
  if (!folder.ok()) return folder.problems();
  if (folder->steps_done() >= options.steps)
    return core::Problem{"--steps",
                         "more than the " + std::to_string(folder->steps_done()) +
                             " that lie behind in " + *options.checkpoint_dir,
                         std::to_string(options.steps), "ask for more, or name an empty folder"};
  return std::optional<CheckpointFolder>(std::move(*folder));
}

}  // namespace exec
