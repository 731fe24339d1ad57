#pragma once
// "--gpus 8xH100": how many and which in one; "8xH100+8xA100": of several kinds. Thread-safe.

#include <optional>
#include <string>
#include <string_view>

#include "cli/plan_options.hpp"
#include "core/result.hpp"

namespace cli {

struct CountedGpu {
  std::string count, gpu;              // "8", "H100"
};
// "8xH100", "8 x rtx4090"; empty: a plain number, or anything else.
std::optional<CountedGpu> counted_gpu(std::string_view text);

// Puts the GPUs of --gpus into --gpu, where it names some, and leaves their number; of several
// kinds, how many of each in `counts`. A problem where --gpu names one too.
core::Status split_counted_gpu(PlanOptions& options);

}  // namespace cli
