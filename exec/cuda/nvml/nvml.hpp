#pragma once
// Nvml: what the management library reads of one GPU. Every reading is optional: a GPU, a virtual
// machine or a container may refuse any of them. Not thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "exec/cuda/nvml/library.hpp"

namespace exec::cuda {

class Nvml {
 public:
  // `pci_bus_id` as cudaDeviceGetPCIBusId writes it. Without the library or the device, every
  // reading is nullopt and `problem()` says why.
  explicit Nvml(const std::string& pci_bus_id, const std::string& file = "libnvidia-ml.so.1");

  const std::string& problem() const { return problem_; }

  struct Memory {
    std::uint64_t total = 0, reserved = 0, free = 0, used = 0;  // bytes; used excludes reserved
  };
  std::optional<Memory> memory() const;
  struct Processes {
    unsigned count = 0;                       // compute processes on the card
    std::optional<std::uint64_t> own_bytes;   // of this process, if its id is recognised
    std::uint64_t sum_bytes = 0;              // of all that state a figure
  };
  std::optional<Processes> processes() const;

  enum class Clock : unsigned { graphics = 0, sm = 1, memory = 2 };
  std::optional<unsigned> clock_mhz(Clock clock) const;
  std::optional<unsigned> max_clock_mhz(Clock clock) const;
  std::optional<double> power_watts() const;
  std::optional<double> power_limit_watts() const;
  std::optional<unsigned> temperature_celsius() const;
  std::optional<double> energy_joules() const;               // since the driver was loaded
  std::optional<std::uint64_t> clock_reasons() const;        // bit mask of nvmlClocksEventReasons
  std::optional<unsigned> pcie_generation(bool max) const;
  std::optional<unsigned> pcie_width(bool max) const;
  std::optional<std::string> driver_version() const;
  // Payload that all NVLinks of the GPU carried since the driver was loaded.
  struct LinkBytes {
    std::uint64_t sent = 0, received = 0;
  };
  std::optional<LinkBytes> nvlink_bytes() const;

 private:
  std::optional<unsigned> unsigned_reading(const char* name) const;
  std::optional<unsigned> clock_reading(const char* name, Clock clock) const;

  NvmlLibrary library_;
  void* device_ = nullptr;
  std::string problem_;
};

// "SW power cap, HW slowdown": the reasons of a mask for which clocks are lower than the most that
// the GPU has; empty: none. Idle is one.
std::string clock_reasons_text(std::uint64_t mask);

}  // namespace exec::cuda
