// `planner-exec`: the same command line with what runs a plan (docs/decisions/0002). `planner`
// hands over to it; it also works by itself, and under a
// launcher it is one rank of a run over TCP.

#include "cli/runner.hpp"
#include "cli/tcp_rank.hpp"

namespace {

core::Result<exec::RunRecord> run(const planner::Plan& plan, const cli::RunRequest& request) {
  return cli::run_on(nullptr, plan, request);
}

core::Result<cli::HostCalibration> calibrate(const cli::CalibrateRequest& request) {
  return cli::delivered(exec::calibrate_host(cli::book_options(request)));
}

}  // namespace

int main(int count, char** arguments) {
  if (cli::is_tcp_rank("tcp", count, arguments)) cli::be_tcp_rank(count, arguments);
  return cli::run_planner(count, arguments, run, calibrate);
}
