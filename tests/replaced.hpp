#pragma once
// A text with one part of it changed, for tests of readers: the first place is taken, and a test
// whose part is not there fails rather than test the text as it was.

#include <string>
#include <string_view>

#include "tests/catch.hpp"

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
