#pragma once
// The few NVML readings the probe wants, through dlopen: the header is not in every toolkit and the
// library is only where a driver is. Every reading is optional: a GPU, a virtual machine or a
// container may refuse any of them. Not thread-safe.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/probe/json.hpp"

namespace probe {

class Nvml {
 public:
  // `pci_bus_id` as cudaDeviceGetPCIBusId writes it. Without the library or the device, every
  // reading is nullopt and `problem()` says why.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

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

 private:
  template <class Signature>
  Signature* symbol(const char* name) const;
  std::optional<unsigned> unsigned_reading(const char* name) const;
  std::optional<unsigned> clock_reading(const char* name, Clock clock) const;

  void* library_ = nullptr;
  void* device_ = nullptr;
  std::string problem_;
};

// The value, or null.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace probe
