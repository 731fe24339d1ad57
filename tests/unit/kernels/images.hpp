#pragma once
// Images of the kernel tests: windows of many shapes, naive reading of what may lie outside.

#include "exec/host/graphs.hpp"
#include "tests/unit/kernels/support.hpp"

namespace kernel_tests {

// Odd sizes, windows that reach over every edge, and one that leaves columns over.
inline std::vector<WindowShape> windows(std::int64_t channels) {
  return {{2, channels, 5, 7, 3, 2, 1}, {1, channels, 6, 4, 3, 1, 2}, {2, channels, 8, 8, 2, 3, 0},
          {1, channels, 4, 5, 4, 2, 3}, {1, channels, 3, 3, 1, 1, 0}, {1, channels, 1, 1, 3, 1, 2},
          // Inception's: a row of seven places, a column of seven; then all sizes unlike.
          {2, channels, 5, 8, {1, 7}, 1, {0, 3}}, {1, channels, 8, 5, {7, 1}, 1, {3, 0}},
          {2, channels, 6, 9, {3, 4}, {1, 3}, {2, 1}}};
}

inline std::int64_t inputs(const WindowShape& s) { return s.samples * s.channels * s.plane(); }
inline std::int64_t results(const WindowShape& s) { return s.samples * s.channels * s.places(); }

// x at a place that may lie outside, where it is `beyond`.
inline double pixel(Buffer& x, const WindowShape& s, std::int64_t plane, std::int64_t row,
             std::int64_t column, double beyond) {
  const bool inside = row >= 0 && row < s.height && column >= 0 && column < s.width;
  return inside ? x.at(plane * s.plane() + row * s.width + column) : beyond;
}

// body(place of y in its plane, first row and column of its window).
template <class Body>
void each_window(const WindowShape& s, Body&& body) {
  for (std::int64_t i = 0; i < s.out_height(); ++i)
    for (std::int64_t j = 0; j < s.out_width(); ++j)
      body(i * s.out_width() + j, i * s.stride.height - s.padding.height,
           j * s.stride.width - s.padding.width);
}

inline void check_near(Buffer& found, const Values& expected, double epsilon = 1e-13) {
  REQUIRE(found.size() == static_cast<std::int64_t>(expected.size()));
  for (std::int64_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found.at(i) == Approx(expected[static_cast<std::size_t>(i)]).epsilon(epsilon).margin(
                             epsilon));
  }
}

}  // namespace kernel_tests
