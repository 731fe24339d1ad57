#pragma once
// Numbers in texts, as std::from_chars reads them. Thread-safe.

#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace core {

// The number that [first, last) begins with: the nearest double, no sign but '-', no space before
// it, no hexadecimal digits. std::from_chars, which libc++ lacks for doubles before version 20.
std::from_chars_result read_double(const char* first, const char* last, double& value);

// The number that all of the text is.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const char* const last = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_same_v<Number, double>) read = read_double(text.data(), last, value);
  else read = std::from_chars(text.data(), last, value);
  if (read.ec != std::errc() || read.ptr != last) return std::nullopt;
  return value;
}

}  // namespace core
