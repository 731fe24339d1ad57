#include "exec/host/vector_math.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

// Nearest of the two neighbours of x in the type, by search over all finite halves; ties to the
// even code. Independent of the bit arithmetic under test.
std::uint16_t nearest_half(float x, float (*value)(std::uint16_t), std::uint16_t infinity) {
  const float magnitude = std::abs(x);
  std::uint16_t low = 0, high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value(middle) <= magnitude ? low : high) = middle;
  }
  // The infinite neighbour stands at twice the step above the greatest finite value.
  const double below = value(low);
  const double above =
      high == infinity ? 2 * below - value(static_cast<std::uint16_t>(low - 1)) : value(high);
  const double m = magnitude;
  const bool up = m - below > above - m || (m - below == above - m && (low & 1) != 0);
  const auto code = static_cast<std::uint16_t>(std::isinf(x) || up ? high : low);
  return static_cast<std::uint16_t>(code | (std::signbit(x) ? 0x8000 : 0));
}

}  // namespace

TEST_CASE("every finite 16-bit value survives the way to float and back") {
  bool all = true;
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const auto code = static_cast<std::uint16_t>(h);
    if ((h & 0x7fffU) <= 0x7f80U) all = all && to_bf16(from_bf16(code)) == code;
    if ((h & 0x7fffU) <= 0x7c00U) all = all && to_f16(from_f16(code)) == code;
  }
  CHECK(all);
}

TEST_CASE("halves have the values of their formats") {
  CHECK(from_f16(0x3c00) == 1.0F);
  CHECK(from_f16(0x0001) == 0x1p-24F);
  CHECK(from_f16(0x7bff) == 65504.0F);
  CHECK(from_bf16(0x3f81) == 1.0F + 0x1p-7F);
  CHECK(std::isnan(from_f16(0x7c01)));
  CHECK(std::isnan(from_f16(to_f16(std::nanf("")))));
  CHECK(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0x7f800001U)))));
  CHECK(to_f16(65519.996F) == 0x7bff);
  CHECK(to_f16(65520.0F) == 0x7c00);
}

TEST_CASE("rounding to 16 bits is to nearest, ties to even") {
  std::mt19937 engine(41);
  std::int64_t wrong = 0;
  for (int i = 0; i < 400'000; ++i) {
    auto bits = static_cast<std::uint32_t>(engine());
    if (i % 4 == 1) bits &= 0xffffe000U;  // representable in f16, or a bf16 off the grid
    if (i % 4 == 2) bits = (bits & 0xfffff000U);      // ties of f16
    if (i % 4 == 3) bits = (bits & 0xffff0000U) | 0x8000U;  // ties of bf16
    if (i % 2 == 0) bits = (bits & 0x8fffffffU) | 0x30000000U;  // about the range of f16
    const auto x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    wrong += to_bf16(x) != nearest_half(x, from_bf16, 0x7f80);
    wrong += to_f16(x) != nearest_half(x, from_f16, 0x7c00);
  }
  CHECK(wrong == 0);
}

TEST_CASE("float exp stays within 2e-7 of exp, and handles its ends") {
  double worst = 0;
  for (double x = -87.33; x < 88.3; x += 1.7e-4) {
    const auto f = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(f));
    worst = std::max(worst, std::abs(static_cast<double>(exp_of(f)) - exact) / exact);
  }
  CHECK(worst < 2e-7);
  CHECK(exp_of(0.0F) == 1.0F);
  CHECK(exp_of(-88.0F) == 0.0F);
  CHECK(exp_of(-std::numeric_limits<float>::infinity()) == 0.0F);
  CHECK(std::isnan(exp_of(std::nanf(""))));
  CHECK(std::isfinite(exp_of(1e30F)));
}

TEST_CASE("a lane sum in chunks is the lane sum of the whole") {
  Random r(42);
  Values x(1000);
  for (double& v : x) v = r();
  LaneSum<double> whole, parts;
  whole.add(1000, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; });
  for (std::int64_t c = 0; c < 1000; c += 48) {
    parts.add(std::min<std::int64_t>(48, 1000 - c),
              [&](std::int64_t i) { return x[static_cast<std::size_t>(c + i)]; });
  }
  CHECK(whole.value() == parts.value());
}

TEST_CASE("reductions keep the accumulator's type, and a NaN wins the maximum") {
  Buffer acc(DType::bf16, Values{1, 2, 3}), x(f32, Values{0x1p-8, std::nan(""), 5});
  Buffer sum = acc, max = acc;
  reduce_into(sum, x, ReduceOp::sum, 3);
  reduce_into(max, x, ReduceOp::max, 3);
  CHECK(sum.at(0) == 1.0);  // the tie goes to the even code
  CHECK(sum.at(2) == 8.0);
  CHECK(max.at(0) == 1.0);
  CHECK(std::isnan(max.at(1)));
  CHECK(max.at(2) == 5.0);
}

TEST_CASE("cast, copy, scale and fill cover lengths that are no multiple of a chunk") {
  Random r(43);
  const std::int64_t n = 2 * kChunk + 3;
  Buffer x = random(r, f32, n), half(DType::f16, n), back(f64, n), same(DType::f16, n);
  cast(half, x, n);
  cast(back, half, n);
  copy(same, half, n);
  CHECK(same == half);
  scale(back, 2.0, n);
  bool all = true;
  for (std::int64_t i = 0; i < n; ++i) {
    all = all &&
          back.at(i) == 2.0 * static_cast<double>(from_f16(to_f16(static_cast<float>(x.at(i)))));
  }
  CHECK(all);
  fill_zero(half, n);
  CHECK(half.values() == Values(static_cast<std::size_t>(n)));
}
