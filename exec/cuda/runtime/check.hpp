#pragma once
// CUDA and cuBLAS status codes as DeviceFailure. A destructor asks quietly() instead.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

#include "exec/cuda/api/failure.hpp"

namespace exec::cuda {

void check(cudaError_t status, const std::string& call);
void check(cublasStatus_t status, const std::string& call);
inline void quietly(cudaError_t) { cudaGetLastError(); }

}  // namespace exec::cuda
