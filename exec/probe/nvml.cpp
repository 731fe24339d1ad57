#include "exec/probe/nvml.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <vector>

namespace probe {
namespace {

// Layouts and numbers of NVIDIA's public NVML API reference, declared here because nvml.h is not
// part of every toolkit.
using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kInsufficientSize = 7;

struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryV2 = static_cast<unsigned>(sizeof(MemoryV2)) | (2U << 24);

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kNoFigure = ~0ULL;

}  // namespace

template <class Signature>
Signature* Nvml::symbol(const char* name) const {
  if (library_ == nullptr) return nullptr;
  return reinterpret_cast<Signature*>(::dlsym(library_, name));
}

Nvml::Nvml(const std::string& pci_bus_id) {
  library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    problem_ = "libnvidia-ml.so.1 cannot be opened";
    return;
  }
  const auto init = symbol<Status()>("nvmlInit_v2");
  const auto find = symbol<Status(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || find == nullptr) {
    problem_ = "libnvidia-ml.so.1 lacks nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2";
    return;
  }
  if (const Status status = init(); status != kSuccess) {
    problem_ = "nvmlInit_v2 returned " + std::to_string(status);
    return;
  }
  if (const Status status = find(pci_bus_id.c_str(), &device_); status != kSuccess) {
    problem_ = "nvmlDeviceGetHandleByPciBusId_v2 returned " + std::to_string(status);
    device_ = nullptr;
  }
}

Nvml::~Nvml() {
  // The library stays loaded: the process ends soon, and unloading driver code gains nothing.
  if (const auto shutdown = symbol<Status()>("nvmlShutdown")) shutdown();
}

std::optional<Nvml::Memory> Nvml::memory() const {
  if (device_ == nullptr) return std::nullopt;
  if (const auto get = symbol<Status(void*, MemoryV2*)>("nvmlDeviceGetMemoryInfo_v2")) {
    MemoryV2 info{kMemoryV2, 0, 0, 0, 0};
    if (get(device_, &info) == kSuccess) {
      return Memory{info.total, info.reserved, info.free, info.used};
    }
  }
  if (const auto get = symbol<Status(void*, MemoryV1*)>("nvmlDeviceGetMemoryInfo")) {
    MemoryV1 info{};
    if (get(device_, &info) == kSuccess) return Memory{info.total, 0, info.free, info.used};
  }
  return std::nullopt;
}

std::optional<Nvml::Processes> Nvml::processes() const {
  const auto get = symbol<Status(void*, unsigned*, ProcessInfo*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3");
  if (device_ == nullptr || get == nullptr) return std::nullopt;
  unsigned count = 64;
  std::vector<ProcessInfo> list(count);
  Status status = get(device_, &count, list.data());
  if (status == kInsufficientSize) {
    list.resize(count + 16);
    count = static_cast<unsigned>(list.size());
    status = get(device_, &count, list.data());
  }
  if (status != kSuccess) return std::nullopt;
  Processes out;
  out.count = count;
  for (unsigned i = 0; i < count; ++i) {
    if (list[i].used_bytes == kNoFigure) continue;
    out.sum_bytes += list[i].used_bytes;
    if (list[i].pid == static_cast<unsigned>(::getpid())) out.own_bytes = list[i].used_bytes;
  }
  return out;
}

std::optional<unsigned> Nvml::unsigned_reading(const char* name) const {
  const auto get = symbol<Status(void*, unsigned*)>(name);
  unsigned value = 0;
  if (device_ == nullptr || get == nullptr || get(device_, &value) != kSuccess) return std::nullopt;
  return value;
}

std::optional<unsigned> Nvml::clock_reading(const char* name, Clock clock) const {
  const auto get = symbol<Status(void*, unsigned, unsigned*)>(name);
  unsigned value = 0;
  if (device_ == nullptr || get == nullptr) return std::nullopt;
  if (get(device_, static_cast<unsigned>(clock), &value) != kSuccess) return std::nullopt;
  return value;
}

std::optional<unsigned> Nvml::clock_mhz(Clock clock) const {
  return clock_reading("nvmlDeviceGetClockInfo", clock);
}

std::optional<unsigned> Nvml::max_clock_mhz(Clock clock) const {
  return clock_reading("nvmlDeviceGetMaxClockInfo", clock);
}

std::optional<double> Nvml::power_watts() const {
  const auto milliwatts = unsigned_reading("nvmlDeviceGetPowerUsage");
  if (!milliwatts) return std::nullopt;
  return *milliwatts / 1e3;
}

std::optional<double> Nvml::power_limit_watts() const {
  const auto milliwatts = unsigned_reading("nvmlDeviceGetEnforcedPowerLimit");
  if (!milliwatts) return std::nullopt;
  return *milliwatts / 1e3;
}

std::optional<unsigned> Nvml::temperature_celsius() const {
  return clock_reading("nvmlDeviceGetTemperature", Clock{0});  // same shape; sensor 0 is the GPU
}

std::optional<double> Nvml::energy_joules() const {
  const auto get =
      symbol<Status(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
  unsigned long long millijoules = 0;
  if (device_ == nullptr || get == nullptr) return std::nullopt;
  if (get(device_, &millijoules) != kSuccess) return std::nullopt;
  return static_cast<double>(millijoules) / 1e3;
}

std::optional<std::uint64_t> Nvml::clock_reasons() const {
  for (const char* name : {"nvmlDeviceGetCurrentClocksEventReasons",
                           "nvmlDeviceGetCurrentClocksThrottleReasons"}) {
    const auto get = symbol<Status(void*, unsigned long long*)>(name);
    unsigned long long mask = 0;
    if (device_ != nullptr && get != nullptr && get(device_, &mask) == kSuccess) return mask;
  }
  return std::nullopt;
}

std::optional<unsigned> Nvml::pcie_generation(bool max) const {
  return unsigned_reading(max ? "nvmlDeviceGetMaxPcieLinkGeneration"
                              : "nvmlDeviceGetCurrPcieLinkGeneration");
}

std::optional<unsigned> Nvml::pcie_width(bool max) const {
  return unsigned_reading(max ? "nvmlDeviceGetMaxPcieLinkWidth"
                              : "nvmlDeviceGetCurrPcieLinkWidth");
}

std::optional<std::string> Nvml::driver_version() const {
  const auto get = symbol<Status(char*, unsigned)>("nvmlSystemGetDriverVersion");
  std::array<char, 96> text{};
  if (get == nullptr || get(text.data(), static_cast<unsigned>(text.size())) != kSuccess) {
    return std::nullopt;
  }
  return std::string(text.data());
}

}  // namespace probe
