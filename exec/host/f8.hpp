#pragma once
// 8-bit floating point on the host: conversions of single numbers, and matrices in the order and
// with the scales of planner/question/f8_matrix.hpp. Rounding is to nearest, ties to even; what is
// beyond the greatest magnitude becomes it (as cuda_fp8.h's __NV_SATFINITE), and NaN stays NaN.
// Stateless, thread-safe.

#include <bit>
#include <cstdint>

#include "exec/host/view.hpp"

namespace exec::host {

// kBias: 127 less the format's own bias. kGreatest: the code of the greatest magnitude. tiny: a
// number whose last bit in f32 has the value of the format's least number.
template <int kMantissa, std::uint32_t kBias, std::uint32_t kGreatest>
std::uint8_t to_f8(float x, float tiny) {
  constexpr int kShift = 23 - kMantissa;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t u = bits & 0x7fffffffU;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(u) + tiny) -
      std::bit_cast<std::uint32_t>(tiny);
  const std::uint32_t normal =
      (u - (kBias << 23) + (1U << (kShift - 1)) - 1 + ((u >> kShift) & 1U)) >> kShift;
  const std::uint32_t rounded = u < ((kBias + 1) << 23) ? small : normal;
  const std::uint32_t finite = u >= 0x7f800000U || rounded > kGreatest ? kGreatest : rounded;
  const std::uint32_t magnitude = u > 0x7f800000U ? 0x7fU : finite;
  return static_cast<std::uint8_t>(magnitude | ((bits >> 24) & 0x80U));
}
inline std::uint8_t to_e4m3(float x) { return to_f8<3, 120, 0x7e>(x, 0x1p14F); }
inline std::uint8_t to_e5m2(float x) { return to_f8<2, 112, 0x7b>(x, 0x1p7F); }
float from_f8(planner::F8Format format, std::uint8_t code);
// The greatest magnitude that has a code: 448 and 57344.
float greatest(planner::F8Format format);

// to[all of the matrix] = round(from[the same, row by row]). Of each tile: scale = greatest
// magnitude / greatest(format) in f32, rounded up to a power of 2 where scales are; 1 where all are
// 0. A tile that has an infinity or a NaN becomes NaN. REQUIRES: to.f8.
void cast_to_f8(View to, View from);
// out[0:n) = the elements from v.first on, row by row. REQUIRES: v.f8.
void load_f8(const View& v, std::int64_t n, float* out);
void load_f8(const View& v, std::int64_t n, double* out);

}  // namespace exec::host
