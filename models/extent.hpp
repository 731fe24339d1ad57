#pragma once
// Sizes along the height and the width of an image: of windows, their strides and their padding. A
// value type; a number alone is both sizes.

#include <cstdint>
#include <string>

namespace models {

struct Extent {
  std::int64_t height = 1, width = 1;
  constexpr Extent(std::int64_t both = 1) : height(both), width(both) {}  // NOLINT: 3 is 3 x 3
  constexpr Extent(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  constexpr std::int64_t area() const { return height * width; }
  friend constexpr bool operator==(const Extent&, const Extent&) = default;
};

std::string to_text(Extent extent);    // "3", "1 x 7"

}  // namespace models
