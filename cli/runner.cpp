#include "cli/runner.hpp"

#include "cli/process.hpp"
#include "cli/run_options.hpp"
#include "core/parse_units.hpp"

namespace cli {
namespace {

class HeldSignals final : public exec::Held {
  WriteInProgress whole_;
};

}  // namespace

core::Result<exec::RunRecord> run_on(exec::Platform* platform, const planner::Plan& plan,
                                     const RunRequest& request) {
  exec::RunOptions options = run_options(request);
  options.platform = platform;
  options.hold_signals = [] { return std::make_unique<HeldSignals>(); };
  return exec::run(plan, options);
}

exec::BookOptions book_options(const CalibrateRequest& request) {
  exec::BookOptions options;
  options.ranks = request.ranks;
  options.budget = request.budget;
  options.file = request.points;
  if (request.progress)
    options.progress = [&request](const std::string& name, const exec::Point& p, bool kept) {
      request.progress(name + ": " + core::to_text(core::Seconds(p.median)) +
                       (kept ? ", kept from before" : ""));
    };
  return options;
}

core::Result<HostCalibration> delivered(const core::Result<exec::Calibration>& made) {
  if (!made.ok()) return made.problems();
  return HostCalibration{made->profile, exec::to_text(*made)};
}

}  // namespace cli
