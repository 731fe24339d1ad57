#include "exec/cuda/nvml/readings.hpp"

#include <fmt/format.h>

namespace exec::cuda {

Readings readings_of(const Nvml& nvml) {
  using Clock = Nvml::Clock;
  const auto wide = [](const std::optional<unsigned>& v) {
    return v ? std::optional<double>(*v) : std::nullopt;
  };
  Readings r;
  r.sm_mhz = wide(nvml.clock_mhz(Clock::sm));
  r.memory_mhz = wide(nvml.clock_mhz(Clock::memory));
  r.watts = nvml.power_watts();
  r.joules = nvml.energy_joules();
  r.celsius = wide(nvml.temperature_celsius());
  r.driver = nvml.driver_version().value_or("");
  r.clock_reasons = nvml.clock_reasons();
  if (const auto links = nvml.nvlink_bytes()) {
    r.nvlink_sent = core::Bytes(static_cast<std::int64_t>(links->sent));
    r.nvlink_received = core::Bytes(static_cast<std::int64_t>(links->received));
  }
  return r;
}

std::string to_text(const Readings& r) {
  std::string text;
  const auto add = [&](const std::optional<double>& value, const char* before,
                       const char* unit) {
    if (value)
      text += fmt::format("{}{}{:.6g} {}", text.empty() ? "" : ", ", before, *value, unit);
  };
  add(r.sm_mhz, "SM ", "MHz");
  add(r.memory_mhz, "memory ", "MHz");
  add(r.watts, "", "W");
  add(r.celsius, "", "C");
  if (!r.clock_reasons) return text;
  const std::string reasons = clock_reasons_text(*r.clock_reasons);
  return text + (text.empty() ? "" : ", ") +
         (reasons.empty() ? "nothing lowers clocks" : "clocks lowered by: " + reasons);
}

}  // namespace exec::cuda
