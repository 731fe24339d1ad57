#pragma once
// What a run reads of its GPU through NVML, before and after. Where NVML does not say, a value is
// empty. Value type.

#include <cstdint>
#include <optional>
#include <string>

#include "core/units.hpp"
#include "exec/cuda/nvml/nvml.hpp"

namespace exec::cuda {

struct Readings {
  std::optional<double> sm_mhz, memory_mhz, watts, joules, celsius;
  std::string driver;
  std::optional<std::uint64_t> clock_reasons;           // clock_reasons_text
  std::optional<core::Bytes> nvlink_sent, nvlink_received;  // since the driver was loaded
};

Readings readings_of(const Nvml& nvml);

// "SM 1755 MHz, 690 W, 71 C, lowered by: SW power cap"; empty: nothing is known.
std::string to_text(const Readings& readings);

}  // namespace exec::cuda
