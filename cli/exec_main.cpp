// `planner-exec`: the same command line with what runs a plan (docs/decisions/0002). `planner`
// hands over to it; it also works by itself.

#include "cli/runner.hpp"

namespace {

core::Result<exec::RunRecord> run(const planner::Plan& plan, const cli::RunRequest& request) {
  return cli::run_on(nullptr, plan, request);
}

core::Result<cli::HostCalibration> calibrate(const cli::CalibrateRequest& request) {
  return cli::delivered(exec::calibrate_host(cli::book_options(request)));
}

}  // namespace

int main(int count, char** arguments) {
  return cli::run_planner(count, arguments, run, calibrate);
}
