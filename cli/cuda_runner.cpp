#include "cli/cuda_runner.hpp"

#include "cli/requirements.hpp"
#include "cli/runner.hpp"
#include "exec/cuda/backend/platform.hpp"
#include "exec/cuda/calibrate/calibrate.hpp"

namespace cli {
namespace {

using exec::cuda::Api;
using exec::cuda::AttentionKernel;
using exec::cuda::FailureKind;

AttentionKernel kernel_of(const std::string& whose) {
  if (whose == "own") return AttentionKernel::own;
  return whose == "auto" ? AttentionKernel::automatic : AttentionKernel::library;
}

// Where no driver or no GPU answers, what `planner doctor` finds missing says it better, if it
// finds anything. It is no condition: a driver may answer where its traces in /proc are hidden.
core::Result<std::unique_ptr<Api>> open_device(
    const std::function<std::unique_ptr<Api>()>& open) {
  try {
    return open();
  } catch (const exec::cuda::DeviceFailure& failure) {
    const FailureKind kind = failure.kind();
    core::Problems problems;
    if (kind == FailureKind::no_driver || kind == FailureKind::no_device)
      problems = missing_for(Needs::cuda);
    if (problems.empty()) throw;
    return problems;
  }
}

}  // namespace

int run_planner_on_gpu(int count, char** arguments,
                       const std::function<std::unique_ptr<Api>()>& open, bool small) {
  const auto run = [&](const planner::Plan& plan,
                       const RunRequest& request) -> core::Result<exec::RunRecord> {
    const auto api = open_device(open);
    if (!api.ok()) return api.problems();
    exec::cuda::CudaPlatform platform(**api, kernel_of(request.attention),
                                      request.gelu == "product",
                                      request.device_times == "cupti");
    return run_on(&platform, plan, request);
  };
  const auto calibrate = [&](const CalibrateRequest& request) -> core::Result<HostCalibration> {
    const auto api = open_device(open);
    if (!api.ok()) return api.problems();
    return delivered(exec::cuda::calibrate_gpu(**api, book_options(request), small));
  };
  return run_planner(count, arguments, run, calibrate);
}

}  // namespace cli
