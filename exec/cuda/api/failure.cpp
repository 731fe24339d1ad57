#include "exec/cuda/api/failure.hpp"

namespace exec::cuda {
namespace {

std::string advice(FailureKind kind) {
  switch (kind) {
    case FailureKind::no_driver:
      return "no NVIDIA driver answers: run where `nvidia-smi` works (in a container: --gpus all), "
             "or use --backend host";
    case FailureKind::old_driver:
      return "the driver is too old for the CUDA this binary was built with: update the driver, or "
             "build with an older toolkit";
    case FailureKind::no_device:
      return "the driver shows no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES";
    case FailureKind::no_image:
      return "this binary has no code for this GPU: configure with "
             "-DPLANNER_CUDA_ARCHITECTURES=80, 86, 90 or 100, as the GPU is, and build again";
    case FailureKind::out_of_memory:
      return "the GPU's memory is full: stop what else runs on it (nvidia-smi), or plan a smaller "
             "micro-batch, recomputation or sharding";
    case FailureKind::out_of_host_memory:
      return "the host has no more memory to pin for the GPU: raise ulimit -l, stop what else runs "
             "here, or plan less offload";
    case FailureKind::graph:
      return "the step could not be kept as a CUDA graph: run with --graphs off";
    case FailureKind::launch:
      return "the GPU refused a kernel: this is a fault of planner, please report it";
    case FailureKind::device:
      return "the GPU failed while working and its context is lost: run again; if it comes back, "
             "run compute-sanitizer on the same command";
  }
  return "";
}

}  // namespace

DeviceFailure::DeviceFailure(FailureKind failure, const std::string& call,
                             const std::string& reason)
    : std::runtime_error(call + ": " + reason + "; " + advice(failure)), kind_(failure) {}

}  // namespace exec::cuda
