#pragma once
// main() of the binaries that run plans on a GPU, whatever that is: `planner-exec-cuda` opens CUDA,
// the tests' binary of that name opens a twin on the host.

#include <functional>
#include <memory>
#include <optional>

#include "exec/cuda/api/api.hpp"

namespace cli {

// Which GPU a process is to use.
struct DeviceChoice {
  std::optional<int> named;            // by --device
  // Its place among the ranks of this machine: the GPU of that number, or the only one that it is
  // shown, as launchers show each rank its own.
  int local_rank = 0;
};
using OpenDevice = std::function<std::unique_ptr<exec::cuda::Api>(const DeviceChoice&)>;

// open: throws DeviceFailure where there is no device; called once, after the input is read, so
// that bad input needs no GPU to be refused. small: calibrate with sizes for tests.
int run_planner_on_gpu(int count, char** arguments, const OpenDevice& open, bool small = false);

}  // namespace cli
