#include "tests/property/reference_f8.hpp"

#include <cmath>

#include "exec/host/convert.hpp"

namespace tests {

using planner::F8Operand;
using planner::F8Scaling;

namespace {

// To so many bits of mantissa, by the spacing of numbers around x.
float rounded(float x, int mantissa, int least_exponent, float greatest) {
  if (x == 0) return x;
  const int exponent = std::max(std::ilogb(x), least_exponent) - mantissa;
  const float near = std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
  return std::copysign(std::min(std::abs(near), greatest), x);
}

}  // namespace

Typed rounded_to_f8(exec::host::View v, const F8Reading& of) {
  const bool one_scale = of.scaling == F8Scaling::tensorwise;
  const bool e5m2 = one_scale && of.operand == F8Operand::gradient;
  const float greatest = e5m2 ? 57344.0F : 448.0F;
  const std::int64_t block = of.scaling == F8Scaling::blockwise ? 128 : 32;
  const bool square = of.scaling == F8Scaling::blockwise && of.operand == F8Operand::weight;
  const std::int64_t of_sample = of.rows / of.samples;
  std::int64_t high = 1, wide = 1;     // of a tile
  if (one_scale) {
    high = of.rows, wide = of.columns;
  } else if (of.scaling == F8Scaling::rowwise) {
    (of.sums_rows ? high : wide) = of.sums_rows ? of.rows : of.columns;
  } else {
    (of.sums_rows ? high : wide) = block;
    if (square) high = wide = block;
  }
  const bool crosses_samples = high == of.rows;
  Typed out(core::DType::f32, of.rows * of.columns);
  auto* const to = static_cast<float*>(out.at().data);
  const auto value = [&](std::int64_t r, std::int64_t c) {
    return exec::host::get<float>(v, r * of.columns + c);
  };
  for (std::int64_t r0 = 0; r0 < of.rows;) {
    const std::int64_t left = crosses_samples ? of.rows - r0 : of_sample - r0 % of_sample;
    const std::int64_t rows = std::min(high, left);
    for (std::int64_t c0 = 0; c0 < of.columns; c0 += wide) {
      const std::int64_t end = std::min(of.columns, c0 + wide);
      float most = 0;
      for (std::int64_t r = r0; r < r0 + rows; ++r)
        for (std::int64_t c = c0; c < end; ++c) most = std::max(most, std::abs(value(r, c)));
      float scale = most > 0 ? most / greatest : 1;
      if (!one_scale && of.scaling != F8Scaling::blockwise && most > 0)
        scale = std::exp2(std::ceil(std::log2(scale)));
      for (std::int64_t r = r0; r < r0 + rows; ++r)
        for (std::int64_t c = c0; c < end; ++c)
          to[r * of.columns + c] =
              rounded(value(r, c) * (1 / scale), e5m2 ? 2 : 3, e5m2 ? -14 : -6, greatest) * scale;
    }
    r0 += rows;
  }
  return out;
}

bool multiplies_in_f8(const std::string& weight, std::int64_t n, std::int64_t k) {
  const auto has = [&](const char* part) { return weight.find(part) != std::string::npos; };
  return n % 16 == 0 && k % 16 == 0 && !has("router") && !has("lora");
}

}  // namespace tests
