#pragma once
// main() of the binaries that run plans on a GPU, whatever that is: `planner-exec-cuda` opens CUDA,
// the tests' binary of that name opens a twin on the host.

#include <functional>
#include <memory>

#include "exec/cuda/api/api.hpp"

namespace cli {

// open: throws DeviceFailure where there is no device; called once, after the input is read, so
// that bad input needs no GPU to be refused. small: calibrate with sizes for tests.
int run_planner_on_gpu(int count, char** arguments,
                       const std::function<std::unique_ptr<exec::cuda::Api>()>& open,
                       bool small = false);

}  // namespace cli
