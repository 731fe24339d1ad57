#include "tools/probe/cuda.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "tools/probe/kernels.hpp"

namespace probe {
namespace {

[[noreturn]] void fail(const std::string& reason, const char* call, const char* file, int line) {
  const std::string path = file;
  throw DeviceError(path.substr(path.rfind('/') + 1) + ":" + std::to_string(line) + ": " + call +
                    ": " + reason);
}

std::string version(int number) {  // 13000 -> 13.0
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace

void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  std::string reason = std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorNoKernelImageForDevice) {
    reason += "; build with -DPLANNER_CUDA_ARCHITECTURES= set to this GPU's architecture";
  }
  cudaGetLastError();  // so that a failed call is not reported again by the next kernel launch
  fail(reason, call, file, line);
}

void check(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(cublasGetStatusString(status), call, file, line);
}

#ifdef PROBE_WITH_NCCL
void check(ncclResult_t status, const char* call, const char* file, int line) {
  if (status == ncclSuccess) return;
  const char* last = ncclGetLastError(nullptr);
  std::string reason = ncclGetErrorString(status);
  if (last != nullptr && *last != '\0') reason += std::string(" (") + last + ")";
  fail(reason, call, file, line);
}
#endif

DeviceBuffer::DeviceBuffer(std::size_t size) : size_(size) { PROBE_TRY(cudaMalloc(&data_, size)); }
DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

Stream::Stream(Priority priority) {
  int lowest = 0, highest = 0;
  PROBE_TRY(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  const int chosen = priority == Priority::highest ? highest : lowest;
  PROBE_TRY(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, chosen));
}
Stream::~Stream() { cudaStreamDestroy(stream_); }

Event::Event(unsigned flags) { PROBE_TRY(cudaEventCreateWithFlags(&event_, flags)); }
Event::~Event() { cudaEventDestroy(event_); }

double seconds_between(const Event& from, const Event& to) {
  to.wait();
  float milliseconds = 0.0F;
  PROBE_TRY(cudaEventElapsedTime(&milliseconds, from, to));
  // Two events may carry the same tick; half a tick (0.5 us / 2) keeps rates finite.
  return std::max(static_cast<double>(milliseconds) / 1e3, 0.25e-6);
}

void hold_back(const Stream& stream, int count) {
  spin(nullptr, 20'000ULL + 10'000ULL * static_cast<unsigned long long>(count), stream);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

MemoryNow memory_now() {
  MemoryNow memory;
  PROBE_TRY(cudaMemGetInfo(&memory.free, &memory.total));
  return memory;
}

void use_device(int device) {
  PROBE_TRY(cudaSetDevice(device));
  PROBE_TRY(cudaFree(nullptr));
}

std::string pci_bus_id(int device) {
  std::array<char, 32> text{};
  PROBE_TRY(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device));
  return text.data();
}

std::string why_unusable(int device) {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) {
    return "no NVIDIA driver found (libcuda.so.1 is absent or has no device); run on a machine "
           "with an NVIDIA GPU and driver, in a container with the GPU passed in (--gpus all)";
  }
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) {
    return "the driver is too old: it supports CUDA " + version(driver) + ", this binary needs " +
           version(runtime) + "; update the driver or build with an older toolkit";
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    return "the driver sees no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES";
  }
  if (status != cudaSuccess) {
    return std::string("the driver cannot be used: ") + cudaGetErrorString(status) +
           "; check nvidia-smi and its driver version";
  }
  if (device >= count) {
    return "there is no device " + std::to_string(device) + ", only 0 to " +
           std::to_string(count - 1) + "; pass --device";
  }
  return "";
}

}  // namespace probe
