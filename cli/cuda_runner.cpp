#include "cli/cuda_runner.hpp"

#include "cli/gpu_run.hpp"
#include "cli/nccl_run.hpp"
#include "cli/runner.hpp"
#include "cli/tcp_rank.hpp"
#include "exec/cuda/calibrate/calibrate.hpp"

namespace cli {

int run_planner_on_gpu(int count, char** arguments, const OpenDevice& open, bool small) {
  if (is_tcp_rank("nccl", count, arguments)) {
    RankOptions options;
    options.run = [&](exec::Processes& control, const planner::Plan& plan,
                      const RunRequest& request) {
      return run_over_nccl(control, plan, request, open);
    };
    be_tcp_rank(count, arguments, std::move(options));
  }
  const auto run = [&](const planner::Plan& plan,
                       const RunRequest& request) -> core::Result<exec::RunRecord> {
    if (request.communicator == "nccl") return run_nccl_threads(plan, request, open);
    const auto api = open_device(open, {request.device, 0});
    if (!api.ok()) return api.problems();
    TunedProducts products(request);
    if (core::Problems problems = products.read(); !problems.empty()) return problems;
    exec::cuda::CudaPlatform platform(**api, choices_of_gpu(plan, request, products));
    auto topology = note_topology(**api, plan, false);  // ranks share the card
    auto record = run_on(&platform, plan, request);
    if (!record.ok()) return record;
    products.write(*record);
    record->environment.merge(topology);
    return record;
  };
  const auto calibrate = [&](const CalibrateRequest& request) -> core::Result<HostCalibration> {
    const auto api = open_device(open, {});
    if (!api.ok()) return api.problems();
    return delivered(exec::cuda::calibrate_gpu(**api, book_options(request), small));
  };
  return run_planner(count, arguments, run, calibrate);
}

}  // namespace cli
