#pragma once
// CUDA runtime, cuBLAS and NCCL calls that throw once with the call, the place and the reason, and
// owners for what they create. The owners' destructors ignore errors: a worker process is about to
// end anyway. Not thread-safe.

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#ifdef PROBE_WITH_NCCL
#include <nccl.h>
#endif

namespace probe {

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check(cudaError_t status, const char* call, const char* file, int line);
void check(cublasStatus_t status, const char* call, const char* file, int line);
#ifdef PROBE_WITH_NCCL
void check(ncclResult_t status, const char* call, const char* file, int line);
#endif

#define PROBE_TRY(call) ::probe::check((call), #call, __FILE__, __LINE__)

// `size` bytes on the current device.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* get() const { return data_; }
  template <class T>
  T* as() const { return static_cast<T*>(data_); }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

class Stream {
 public:
  enum class Priority { normal, highest };
  explicit Stream(Priority priority = Priority::normal);  // does not wait for the default stream
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { PROBE_TRY(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }
  void record(cudaStream_t stream) const { PROBE_TRY(cudaEventRecord(event_, stream)); }
  void wait() const { PROBE_TRY(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

// Device seconds between two recorded events; waits for the later one.
double seconds_between(const Event& from, const Event& to);

// Host seconds of the steady clock.
double now();

// Keeps the device busy while the host submits `count` calls (10 us each are granted), so that
// what follows runs from a full queue and not at the host's pace.
void hold_back(const Stream& stream, int count);

// Device seconds of one call: `count` calls of `submit` between two events, divided.
template <class Submit>
double device_seconds(const Stream& stream, int count, Submit&& submit) {
  const Event from, to;
  if (count > 1) hold_back(stream, count);
  from.record(stream);
  for (int i = 0; i < count; ++i) submit();
  to.record(stream);
  return seconds_between(from, to) / count;
}

struct MemoryNow {
  std::size_t free = 0, total = 0;  // cudaMemGetInfo
};
MemoryNow memory_now();

// Selects the device and makes its context.
void use_device(int device);
std::string pci_bus_id(int device);  // needs no context

// Explains why the runtime offers no device, or "" when `device` can be used. Makes no context.
std::string why_unusable(int device);

}  // namespace probe
