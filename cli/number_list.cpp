#include "cli/number_list.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/read_number.hpp"

namespace cli {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;

// "8", "8..64", "8..64+8"; empty: malformed, or more numbers than a sweep takes.
std::vector<std::int64_t> item(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    const auto one = parse_number(text);
    return one ? std::vector{*one} : std::vector<std::int64_t>();
  }
  const std::string_view rest = text.substr(dots + 2);
  const std::size_t plus = rest.find('+');
  const auto low = parse_number(text.substr(0, dots)), high = parse_number(rest.substr(0, plus));
  const auto step = plus == std::string_view::npos ? std::optional<std::int64_t>(0)
                                                   : parse_number(rest.substr(plus + 1));
  std::vector<std::int64_t> values;
  if (!low || !high || !step || *high < *low) return values;
  for (std::int64_t v = *low; v <= *high && values.size() <= kMostNumbers;
       v = *step == 0 ? v * 2 : v + *step)
    values.push_back(v);
  if (values.size() > kMostNumbers) values.clear();
  return values;
}

}  // namespace

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<double> parse_decimal(std::string_view text) { return core::number_in<double>(text); }

std::optional<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  auto value = parse_decimal(percent ? text.substr(0, text.size() - 1) : text);
  if (value && percent) *value /= 100;
  return value && *value >= 0 && *value <= 1 ? value : std::nullopt;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t factor = 1;
  if (text.ends_with('k') || text.ends_with('K')) factor = 1024;
  if (text.ends_with('m') || text.ends_with('M')) factor = 1024 * 1024;
  if (factor > 1) text.remove_suffix(1);
  const auto value = core::number_in<std::int64_t>(text);
  if (!value || *value < 1 || *value > kMost / factor) return std::nullopt;
  return *value * factor;
}

std::int64_t counted_number(const std::optional<std::string>& text, std::string_view option,
                            core::Problems& problems) {
  if (!text) return 0;
  if (const auto number = parse_number(*text)) return *number;
  problems.push_back({std::string(option), "an integer >= 1, as 4096 or 4k",
                      fmt::format("\"{}\"", *text), ""});
  return 0;
}

core::Result<std::vector<std::int64_t>> parse_number_list(std::string_view text,
                                                          std::string_view option) {
  std::vector<std::int64_t> all;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::vector<std::int64_t> values = item(rest.substr(0, comma));
    for (const std::int64_t v : values)
      if (std::ranges::find(all, v) == all.end()) all.push_back(v);
    if (values.empty() || all.size() > kMostNumbers)
      return core::Problem{std::string(option),
                           fmt::format("whole numbers, at most {}: 8,16 or 8..64 (doubling) or "
                                       "8..64+8; k is 1024",
                                       kMostNumbers),
                           fmt::format("\"{}\"", text.substr(0, 80)), ""};
    if (comma == std::string_view::npos) return all;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace cli
