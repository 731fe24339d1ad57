#pragma once
// What a device call throws, once: what failed, why, and what to do about it. The same words
// whether the driver said it or a test put it there. Value type.

#include <cstdint>
#include <stdexcept>
#include <string>

namespace exec::cuda {

enum class FailureKind : std::uint8_t {
  no_driver,      // libcuda is absent, or knows no device
  old_driver,     // of an older CUDA than this binary was made with
  no_device,      // a driver, but no GPU that it shows
  no_image,       // this binary has no code for this GPU
  out_of_memory,
  out_of_host_memory,  // that is pinned
  graph,          // work could not be kept to be given as one: without that it may run
  launch,         // a kernel was refused: too many threads, too much shared memory
  device          // a kernel failed while running: the context is lost
};

class DeviceFailure : public std::runtime_error {
 public:
  // call: "cudaMallocFromPoolAsync(12.5 GiB)"; reason: the driver's words.
  DeviceFailure(FailureKind failure, const std::string& call, const std::string& reason);
  FailureKind kind() const { return kind_; }

 private:
  FailureKind kind_;
};

}  // namespace exec::cuda
