#include "core/range.hpp"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace core {
namespace {

template <class Range>
std::string in_words(std::string_view what, Range range, bool low_open) {
  const bool low = range.low > Range{}.low, high = range.high < Range{}.high;
  const std::string_view above = low_open ? "above" : ">=";
  if (low && high && !low_open) return fmt::format("{} from {} to {}", what, range.low, range.high);
  if (low && high) return fmt::format("{} above {}, at most {}", what, range.low, range.high);
  if (low) return fmt::format("{} {} {}", what, above, range.low);
  if (high) return fmt::format("{} <= {}", what, range.high);
  return std::string(what);
}

}  // namespace

bool contains(IntRange range, std::int64_t value) {
  return value >= range.low && value <= range.high;
}

bool contains(NumberRange range, double value) {
  const bool above = range.low_open ? value > range.low : value >= range.low;
  return std::isfinite(value) && above && value <= range.high;
}

std::string to_text(IntRange range) { return in_words("an integer", range, false); }
std::string to_text(NumberRange range) { return in_words("a number", range, range.low_open); }

}  // namespace core
