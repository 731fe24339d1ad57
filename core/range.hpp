#pragma once
// Ranges that numbers of an input must lie in, and how a message words them. Value types.

#include <cstdint>
#include <limits>
#include <string>

namespace core {

struct IntRange {  // both ends included
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};
struct NumberRange {  // finite numbers, both ends included unless low_open
  double low = std::numeric_limits<double>::lowest();
  double high = std::numeric_limits<double>::max();
  bool low_open = false;
};

constexpr IntRange at_least(std::int64_t low) {
  return {low, std::numeric_limits<std::int64_t>::max()};
}
constexpr NumberRange not_negative() { return {0, std::numeric_limits<double>::max(), false}; }
constexpr NumberRange positive() { return {0, std::numeric_limits<double>::max(), true}; }

// False for what is not finite.
bool contains(IntRange range, std::int64_t value);
bool contains(NumberRange range, double value);

// "an integer from 1 to 8", "an integer >= 1", "a number above 0", "a number".
std::string to_text(IntRange range);
std::string to_text(NumberRange range);

}  // namespace core
