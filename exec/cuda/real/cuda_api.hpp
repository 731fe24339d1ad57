#pragma once
// The Api over CUDA: runtime, cuBLASLt, NVML, NVTX and CUPTI. Opening it makes the device's
// context.

#include <memory>

#include "exec/cuda/api/api.hpp"

namespace exec::cuda {

// The first GPU that the driver shows. Throws DeviceFailure: no driver, one that is too old, no
// GPU, no code for it.
std::unique_ptr<Api> open_cuda();

}  // namespace exec::cuda
