#pragma once
// From the command line's requests to exec, for the binaries that run plans.

#include "cli/verbs.hpp"
#include "exec/calibrate/calibrate.hpp"
#include "exec/run/run.hpp"

namespace cli {

// On a platform that request.backend names; null: the host.
core::Result<exec::RunRecord> run_on(exec::Platform* platform, const planner::Plan& plan,
                                     const RunRequest& request);

// How points are measured, kept and told.
exec::BookOptions book_options(const CalibrateRequest& request);
core::Result<HostCalibration> delivered(const core::Result<exec::Calibration>& made);

}  // namespace cli
