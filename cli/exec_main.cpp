// `planner-exec`: the same command line with what runs a plan (docs/decisions/0002). `planner`
// hands over to it; it also works by itself.

#include "cli/process.hpp"
#include "cli/run_options.hpp"
#include "cli/verbs.hpp"
#include "core/parse_units.hpp"
#include "exec/calibrate/calibrate.hpp"
#include "exec/run/run.hpp"

namespace {

class HeldSignals final : public exec::Held {
  cli::WriteInProgress whole_;
};

core::Result<exec::RunRecord> run(const planner::Plan& plan, const cli::RunRequest& request) {
  exec::RunOptions options = cli::run_options(request);
  options.hold_signals = [] { return std::make_unique<HeldSignals>(); };
  return exec::run(plan, options);
}

core::Result<cli::HostCalibration> calibrate(const cli::CalibrateRequest& request) {
  exec::BookOptions options;
  options.ranks = request.ranks;
  options.budget = request.budget;
  options.file = request.points;
  if (request.progress)
    options.progress = [&request](const std::string& name, const exec::Point& p, bool kept) {
      request.progress(name + ": " + core::to_text(core::Seconds(p.median)) +
                       (kept ? ", kept from before" : ""));
    };
  const core::Result<exec::Calibration> made = exec::calibrate_host(options);
  if (!made.ok()) return made.problems();
  return cli::HostCalibration{made->profile, exec::to_text(*made)};
}

}  // namespace

int main(int count, char** arguments) {
  return cli::run_planner(count, arguments, run, calibrate);
}
