#include "exec/host/quantise.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "exec/host/vector_math.hpp"

namespace exec::host {
namespace {

CodeMap make_map(bool with_sign) {
  CodeMap map{};
  std::size_t n = 0;
  for (int e = 0; e < 7; ++e) {
    const int intervals = 1 << (with_sign ? e : e + 1);
    const double decade = std::pow(10.0, e - 6);
    for (int i = 0; i < intervals; ++i) {
      const double value = decade * (0.1 + 0.9 * (i + 0.5) / intervals);
      map[n++] = static_cast<float>(value);
      if (with_sign) map[n++] = static_cast<float>(-value);
    }
  }
  map[n++] = 0.0F;
  map[n++] = 1.0F;
  PLANNER_CHECK(n == map.size());
  std::ranges::sort(map);
  return map;
}

std::uint8_t nearest(const CodeMap& map, float x) {
  const auto above = std::ranges::lower_bound(map, x);
  if (above == map.begin()) return 0;
  if (above == map.end()) return 255;
  const auto below = above - 1;
  const auto chosen = x - *below <= *above - x ? below : above;
  return static_cast<std::uint8_t>(chosen - map.begin());
}

}  // namespace

const CodeMap& signed_map() {
  static const CodeMap map = make_map(true);
  return map;
}

const CodeMap& unsigned_map() {
  static const CodeMap map = make_map(false);
  return map;
}

void dequantise(const CodeMap& map, const std::uint8_t* codes, float scale, std::int64_t n,
                float* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = map[codes[i]] * scale;
}

float quantise(const CodeMap& map, const float* x, std::int64_t n, std::uint8_t* codes) {
  float scale = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) scale = max_of(scale, std::abs(x[i]));
  const float divisor = scale > 0.0F ? scale : 1.0F;
  for (std::int64_t i = 0; i < n; ++i) codes[i] = nearest(map, x[i] / divisor);
  return scale;
}

}  // namespace exec::host
