#include "exec/cuda/nvml/nvml.hpp"

#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "exec/cuda/nvml/abi.hpp"

namespace exec::cuda {

using nvml::Status;

Nvml::Nvml(const std::string& pci_bus_id, const std::string& file)
    : library_(file), problem_(library_.problem()) {
  if (!problem_.empty()) return;
  const auto find =
      library_.symbol<Status(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  const Status status = find != nullptr ? find(pci_bus_id.c_str(), &device_) : nvml::kNotSupported;
  if (status == nvml::kSuccess) return;
  problem_ = "nvmlDeviceGetHandleByPciBusId_v2 returned " + std::to_string(status);
  device_ = nullptr;
}

std::optional<Nvml::Memory> Nvml::memory() const {
  if (device_ == nullptr) return std::nullopt;
  if (const auto get =
          library_.symbol<Status(void*, nvml::MemoryV2*)>("nvmlDeviceGetMemoryInfo_v2")) {
    nvml::MemoryV2 info{nvml::kMemoryV2, 0, 0, 0, 0};
    if (get(device_, &info) == nvml::kSuccess) {
      return Memory{info.total, info.reserved, info.free, info.used};
    }
  }
  if (const auto get = library_.symbol<Status(void*, nvml::MemoryV1*)>("nvmlDeviceGetMemoryInfo")) {
    nvml::MemoryV1 info{};
    if (get(device_, &info) == nvml::kSuccess) return Memory{info.total, 0, info.free, info.used};
  }
  return std::nullopt;
}

std::optional<Nvml::Processes> Nvml::processes() const {
  const auto get = library_.symbol<Status(void*, unsigned*, nvml::ProcessInfo*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3");
  if (device_ == nullptr || get == nullptr) return std::nullopt;
  unsigned count = 64;
  std::vector<nvml::ProcessInfo> list(count);
  Status status = get(device_, &count, list.data());
  if (status == nvml::kInsufficientSize) {
    list.resize(count + 16);
    count = static_cast<unsigned>(list.size());
    status = get(device_, &count, list.data());
  }
  if (status != nvml::kSuccess) return std::nullopt;
  Processes out;
  out.count = count;
  for (unsigned i = 0; i < count; ++i) {
    if (list[i].used_bytes == nvml::kNoFigure) continue;
    out.sum_bytes += list[i].used_bytes;
    if (list[i].pid == static_cast<unsigned>(::getpid())) out.own_bytes = list[i].used_bytes;
  }
  return out;
}

std::optional<unsigned> Nvml::unsigned_reading(const char* name) const {
  const auto get = library_.symbol<Status(void*, unsigned*)>(name);
  unsigned value = 0;
  if (device_ == nullptr || get == nullptr || get(device_, &value) != nvml::kSuccess)
    return std::nullopt;
  return value;
}

std::optional<unsigned> Nvml::clock_reading(const char* name, Clock clock) const {
  const auto get = library_.symbol<Status(void*, unsigned, unsigned*)>(name);
  unsigned value = 0;
  if (device_ == nullptr || get == nullptr) return std::nullopt;
  if (get(device_, static_cast<unsigned>(clock), &value) != nvml::kSuccess) return std::nullopt;
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
      library_.symbol<Status(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
  unsigned long long millijoules = 0;
  if (device_ == nullptr || get == nullptr) return std::nullopt;
  if (get(device_, &millijoules) != nvml::kSuccess) return std::nullopt;
  return static_cast<double>(millijoules) / 1e3;
}

std::optional<std::uint64_t> Nvml::clock_reasons() const {
  for (const char* name : {"nvmlDeviceGetCurrentClocksEventReasons",
                           "nvmlDeviceGetCurrentClocksThrottleReasons"}) {
    const auto get = library_.symbol<Status(void*, unsigned long long*)>(name);
    unsigned long long mask = 0;
    if (device_ != nullptr && get != nullptr && get(device_, &mask) == nvml::kSuccess) return mask;
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
  std::array<char, 96> text{};
  if (!library_.call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size())))
    return std::nullopt;
  return std::string(text.data());
}

std::optional<Nvml::LinkBytes> Nvml::nvlink_bytes() const {
  std::array<nvml::FieldValue, 2> values{};
  values[0].field = nvml::kSent;
  values[1].field = nvml::kReceived;
  for (nvml::FieldValue& v : values) v.scope = nvml::kAllLinks;
  if (device_ == nullptr || !library_.call("nvmlDeviceGetFieldValues", device_, 2, values.data()))
    return std::nullopt;
  for (const nvml::FieldValue& v : values)
    if (v.status != nvml::kSuccess || v.type != nvml::kLarge) return std::nullopt;
  constexpr std::uint64_t kUnit = 1024;  // both fields count KiB
  return LinkBytes{values[0].value.large * kUnit, values[1].value.large * kUnit};
}

std::string clock_reasons_text(std::uint64_t mask) {
  // nvmlClocksEventReason*
  static constexpr std::pair<std::uint64_t, const char*> kReasons[] = {
      {0x1, "idle"},           {0x2, "clocks set"},        {0x4, "SW power cap"},
      {0x8, "HW slowdown"},    {0x10, "sync boost"},       {0x20, "SW thermal slowdown"},
      {0x40, "HW thermal slowdown"}, {0x80, "HW power brake"}, {0x100, "display clocks"}};
  std::string text;
  for (const auto& [bit, words] : kReasons)
    if ((mask & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(words);
  return text;
}

}  // namespace exec::cuda
