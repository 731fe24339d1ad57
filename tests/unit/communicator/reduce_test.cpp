#include "exec/communicator/reduce.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/catch.hpp"

using namespace exec;
using core::DType;
using program::ReduceOp;

namespace {

// The definition: sign, exponent and fraction of a 16-bit float with `fraction` bits, in double.
double decoded(std::uint16_t bits, int fraction, int bias) {
  const int mantissa = bits & ((1 << fraction) - 1);
  const int exponent = (bits & 0x7fff) >> fraction;
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, 1 - bias - fraction)
                               : std::ldexp(mantissa + (1 << fraction), exponent - bias - fraction);
  return bits & 0x8000 ? -magnitude : magnitude;
}

template <class T>
T combined(T a, T b, DType type, ReduceOp op) {
  T out;
  combine(reinterpret_cast<const std::byte*>(&a), reinterpret_cast<const std::byte*>(&b),
          reinterpret_cast<std::byte*>(&out), 1, type, op);
  return out;
}

// Each finite value, and the three values between it and its upper neighbour that decide rounding.
template <class From, class To>
void check_rounding(From from_float, To to_float, int fraction, int bias, std::uint16_t infinity) {
  int wrong = 0;
  for (std::uint16_t b = 0; b + 1 < infinity; ++b) {
    const double low = decoded(b, fraction, bias), high = decoded(b + 1, fraction, bias);
    const auto middle = static_cast<float>((low + high) / 2);
    const std::uint16_t even = b % 2 == 0 ? b : static_cast<std::uint16_t>(b + 1);
    wrong += to_float(b) != static_cast<float>(low);
    wrong += from_float(static_cast<float>(low)) != b;
    wrong += from_float(middle) != even;
    wrong += from_float(std::nextafter(middle, 0.0f)) != b;
    wrong += from_float(std::nextafter(middle, std::numeric_limits<float>::infinity())) != b + 1;
    wrong += from_float(-static_cast<float>(low)) != (b | 0x8000);
  }
  CHECK(wrong == 0);
  CHECK(from_float(std::numeric_limits<float>::infinity()) == infinity);
  CHECK(std::isnan(to_float(from_float(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isinf(to_float(infinity)));
}

}  // namespace

TEST_CASE("f16 rounds to nearest even over its whole range") {
  check_rounding(f16_from_float, float_from_f16, 10, 15, 0x7c00);
  CHECK(f16_from_float(65519.996f) == 0x7bff);  // the last value that rounds to 65504
  CHECK(f16_from_float(65520.0f) == 0x7c00);
}

TEST_CASE("bf16 rounds to nearest even over its normal range") {
  // Midpoints of bf16 subnormals are f32 subnormals, exact too.
  check_rounding(bf16_from_float, float_from_bf16, 7, 127, 0x7f80);
}

TEST_CASE("a bf16 sum is rounded once: 256 + 1 is 256 and 256 + 3 is 260") {
  // Between 256 and 512 bf16 has steps of 2: 257 is a tie and goes to the even 256, 259 to 260.
  const auto sum = [](float a, float b) {
    return float_from_bf16(
        combined(bf16_from_float(a), bf16_from_float(b), DType::bf16, ReduceOp::sum));
  };
  CHECK(sum(256, 1) == 256);
  CHECK(sum(256, 3) == 260);
}

TEST_CASE("an f16 sum is rounded once: 2048 + 1 is 2048 and 2048 + 3 is 2052") {
  const auto sum = [](float a, float b) {
    return float_from_f16(
        combined(f16_from_float(a), f16_from_float(b), DType::f16, ReduceOp::sum));
  };
  CHECK(sum(2048, 1) == 2048);
  CHECK(sum(2048, 3) == 2052);
  CHECK(sum(60000, 60000) == std::numeric_limits<float>::infinity());
}

TEST_CASE("f64, f32 and i32 reduce in their own type") {
  CHECK(combined(1.0, 0x1p-52, DType::f64, ReduceOp::sum) == 1.0 + 0x1p-52);
  CHECK(combined(1.0f, 0x1p-24f, DType::f32, ReduceOp::sum) == 1.0f);
  CHECK(combined<std::int32_t>(7, -9, DType::i32, ReduceOp::sum) == -2);
  const auto top = std::numeric_limits<std::int32_t>::max();
  CHECK(combined<std::int32_t>(top, 1, DType::i32, ReduceOp::sum) == -top - 1);
  CHECK(combined<std::int32_t>(-7, -9, DType::i32, ReduceOp::max) == -7);
}

TEST_CASE("max keeps a NaN of either side") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(combined(nan, 1.0f, DType::f32, ReduceOp::max)));
  CHECK(std::isnan(combined(1.0f, nan, DType::f32, ReduceOp::max)));
  CHECK(combined(-2.0f, -3.0f, DType::f32, ReduceOp::max) == -2.0f);
  CHECK(combined(bf16_from_float(-2), bf16_from_float(5), DType::bf16, ReduceOp::max) ==
        bf16_from_float(5));
}

TEST_CASE("the result may be written over either side") {
  std::vector<float> a{1, 2, 3, 4, 5, 6, 7, 8, 9}, b(9, 10.0f);
  const auto bytes = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };
  combine(bytes(a), bytes(b), bytes(b), 9, DType::f32, ReduceOp::sum);
  CHECK(b.back() == 19.0f);
  combine(bytes(a), bytes(b), bytes(a), 9, DType::f32, ReduceOp::sum);
  CHECK(a.back() == 28.0f);
  CHECK(a.front() == 12.0f);
}
