#include "exec/cuda/runtime/check.hpp"

namespace exec::cuda {
namespace {

FailureKind kind_of(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice: return FailureKind::old_driver;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice: return FailureKind::no_device;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion: return FailureKind::no_image;
    case cudaErrorMemoryAllocation: return FailureKind::out_of_memory;
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread: return FailureKind::graph;
    case cudaErrorInvalidConfiguration:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorInvalidValue: return FailureKind::launch;
    default: return FailureKind::device;
  }
}

}  // namespace

void check(cudaError_t status, const std::string& call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // so that a failed call is not reported again by the next one
  throw DeviceFailure(kind_of(status), call,
                      std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status));
}

void check(cublasStatus_t status, const std::string& call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const FailureKind kind = status == CUBLAS_STATUS_ALLOC_FAILED       ? FailureKind::out_of_memory
                           : status == CUBLAS_STATUS_EXECUTION_FAILED ? FailureKind::device
                           : status == CUBLAS_STATUS_ARCH_MISMATCH    ? FailureKind::no_image
                                                                      : FailureKind::launch;
  throw DeviceFailure(kind, call, cublasLtGetStatusString(status));
}

}  // namespace exec::cuda
