#pragma once
// The Api over CUDA: runtime, cuBLASLt, NVML, NVTX and CUPTI. Opening it makes the device's
// context.

#include <memory>

#include "exec/cuda/api/api.hpp"

namespace exec::cuda {

// A GPU that the driver shows, counted from 0 (CUDA_VISIBLE_DEVICES changes the count). Throws
// DeviceFailure: no driver, one that is too old, no such GPU, no code for it.
std::unique_ptr<Api> open_cuda(int device = 0);
// That of the rank with this number on its machine; the only one where the driver shows one.
std::unique_ptr<Api> open_cuda_of_rank(int local_rank);

}  // namespace exec::cuda
