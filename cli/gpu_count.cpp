#include "cli/gpu_count.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace cli {

std::optional<CountedGpu> counted_gpu(std::string_view text) {
  const auto skip_blanks = [&](std::size_t from) {
    return std::min(text.find_first_not_of(' ', from), text.size());
  };
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::size_t sign = skip_blanks(digits);
  if (digits == 0 || sign == text.size() || (text[sign] != 'x' && text[sign] != 'X')) return {};
  const std::size_t name = skip_blanks(sign + 1);
  if (name == text.size()) return {};
  return CountedGpu{std::string(text.substr(0, digits)), std::string(text.substr(name))};
}

core::Status split_counted_gpu(PlanOptions& options) {
  if (!options.gpus) return core::Done{};
  const std::optional<CountedGpu> both = counted_gpu(*options.gpus);
  if (!both) return core::Done{};
  const std::string typed = std::exchange(*options.gpus, both->count);
  if (options.gpu)
    return core::Problem{"--gpus", "a number beside --gpu", fmt::format("\"{}\"", typed),
                         fmt::format("write --gpus {}, or leave --gpu out", both->count)};
  options.gpu = both->gpu;
  return core::Done{};
}

}  // namespace cli
