// `planner-exec`: the same command line with what runs a plan (docs/decisions/0002). `planner`
// hands over to it; it also works by itself.

#include "cli/verbs.hpp"
#include "exec/run/run.hpp"

namespace {

core::Result<exec::RunRecord> run(const planner::Plan& plan, const cli::RunRequest& request) {
  exec::RunOptions options;
  options.backend = request.backend;
  options.communicator = request.communicator;
  options.data = request.data;
  options.steps = request.steps;
  options.seed = request.seed;
  options.candidate = request.candidate;
  options.progress = request.progress;
  return exec::run(plan, options);
}

}  // namespace

int main(int count, char** arguments) { return cli::run_planner(count, arguments, run); }
