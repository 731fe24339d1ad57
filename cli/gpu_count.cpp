#include "cli/gpu_count.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/number_list.hpp"

namespace cli {

constexpr std::size_t kMostKinds = 4;  // closed_form::kMachines

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

// "8xH100+4xA100": each part counted, or the first one alone as typed.
static std::vector<std::optional<CountedGpu>> parts_of(std::string_view typed,
                                                       char separator = '+') {
  std::vector<std::optional<CountedGpu>> parts;
  for (const std::string& text : split_list(typed, separator)) {
    std::string_view part = text;
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(counted_gpu(part));
  }
  return parts;
}

// Whether a name is a list, as --gpu takes it, in which another kind is counted: "H100,8xA100".
static bool counts_behind_comma(std::string_view gpu) {
  const auto parts = parts_of(gpu, ',');
  return std::any_of(parts.begin() + 1, parts.end(),
                     [](const auto& part) { return part.has_value(); });
}

core::Status split_counted_gpu(PlanOptions& options) {
  if (!options.gpus) return core::Done{};
  const std::string typed = *options.gpus;
  const auto parts = parts_of(typed);
  if (parts.size() == 1 && !parts.front()) return core::Done{};
  options.gpus.reset();                // nobody else says what is wrong with it
  if (parts.size() > kMostKinds)
    return core::Problem{"--gpus", fmt::format("at most {} kinds of GPUs", kMostKinds),
                         fmt::format("{}", parts.size()), "leave some out"};
  std::int64_t all = 0;
  std::string names;
  core::Problems problems;
  for (const std::optional<CountedGpu>& part : parts) {
    if (!part || counts_behind_comma(part->gpu))
      return core::Problem{"--gpus", "kinds of GPUs with how many of each, with + between them",
                           fmt::format("\"{}\"", typed), "write --gpus 8xH100+8xA100"};
    const std::int64_t count = whole_number(part->count, "--gpus", 1, problems).value_or(0);
    if (!problems.empty()) return problems;
    all += count;
    if (parts.size() > 1) options.counts.push_back(count);
    names += (names.empty() ? "" : ",") + part->gpu;
  }
  options.gpus = parts.size() == 1 ? parts.front()->count : fmt::format("{}", all);
  if (options.gpu)
    return core::Problem{"--gpus", "a number beside --gpu", fmt::format("\"{}\"", typed),
                         fmt::format("write --gpus {}, or leave --gpu out", *options.gpus)};
  options.gpu = names;
  return core::Done{};
}

}  // namespace cli
