// 8-bit floating point: codes of single numbers against a search through all of them; matrices
// against tiles that are walked element by element; products against those of decoded values.
#include "exec/host/f8.hpp"

#include <cmath>

#include "exec/host/gemm.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;
using planner::F8Format;
using planner::F8Matrix;
using planner::F8Operand;
using planner::F8Scaling;

namespace {

std::uint8_t code_of(F8Format format, float x) {
  return format == F8Format::e4m3 ? to_e4m3(x) : to_e5m2(x);
}

// The nearest code of the same sign; of two that are as near the one whose last bit is 0. What is
// beyond the greatest is taken for it.
std::uint8_t nearest(F8Format format, float x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  const double magnitude = std::min(std::abs(x), greatest(format));
  int best = sign;
  for (int code = 0; code < 0x7f; ++code) {
    const float value = from_f8(format, static_cast<std::uint8_t>(code));
    if (!std::isfinite(value)) continue;
    const auto apart = [&](float v) { return std::abs(double(v) - magnitude); };
    const double now = apart(value);
    const double before = apart(std::abs(from_f8(format, static_cast<std::uint8_t>(best))));
    if (now < before || (now == before && code % 2 == 0)) best = sign | code;
  }
  return static_cast<std::uint8_t>(best);
}

// A matrix of random numbers cast and read back, and what its codes stand for by the letter: each
// element divided by the scale of the tile that it is found in, rounded, and multiplied again.
struct Cast {
  F8Matrix matrix;
  Buffer values, codes;

  Cast(const F8Matrix& m, Random& r, DType type = DType::bf16)
      : matrix(m), values(type, m.elements()), codes(DType::u8, m.bytes().value()) {
    Values v;
    for (std::int64_t i = 0; i < m.elements(); ++i) v.push_back(r() * std::exp2(r() * 12));
    values.set(v);
    cast_to_f8(view(), values);
  }
  View view() { return {codes.view().data, DType::f8, &matrix}; }
  Values read() {
    std::vector<float> out(static_cast<std::size_t>(matrix.elements()));
    load_f8(view(), matrix.elements(), out.data());
    return {out.begin(), out.end()};
  }

  // Rows and columns with which (row, column) shares a scale.
  bool together(std::int64_t row, std::int64_t column, std::int64_t r, std::int64_t c) const {
    const F8Matrix& m = matrix;
    const bool weight = m.operand == F8Operand::weight, across = m.by_columns;
    const bool same_group = row / m.rows == r / m.rows;
    const auto block = [](std::int64_t a, std::int64_t b, std::int64_t size) {
      return a / size == b / size;
    };
    const std::int64_t in = row % m.rows, of = r % m.rows;
    switch (m.scaling) {
      case F8Scaling::tensorwise:
      case F8Scaling::delayed: return !weight || same_group;
      case F8Scaling::rowwise:
        return across ? column == c && (!weight || same_group) : row == r;
      case F8Scaling::blockwise:
        if (weight) return same_group && block(in, of, 128) && block(column, c, 128);
        return across ? column == c && same_group && block(in, of, 128)
                      : row == r && block(column, c, 128);
      case F8Scaling::mxfp8:
        return across ? column == c && same_group && block(in, of, 32)
                      : row == r && block(column, c, 32);
    }
    return false;
  }
  Values expected() {
    const Values v = values.values();
    Values out;
    for (std::int64_t row = 0; row < matrix.all_rows(); ++row)
      for (std::int64_t column = 0; column < matrix.columns; ++column) {
        double most = 0;
        for (std::int64_t r = 0; r < matrix.all_rows(); ++r)
          for (std::int64_t c = 0; c < matrix.columns; ++c)
            if (together(row, column, r, c))
              most = std::max(most, std::abs(v[static_cast<std::size_t>(r * matrix.columns + c)]));
        float scale = static_cast<float>(most) / greatest(matrix.format());
        if (matrix.powers_of_2()) scale = std::exp2(std::ceil(std::log2(scale)));
        const auto x = static_cast<float>(v[out.size()]);
        out.push_back(from_f8(matrix.format(), nearest(matrix.format(), x * (1 / scale))) * scale);
      }
    return out;
  }
};

}  // namespace

TEST_CASE("every code of 8 bits stands for a number whose code it is") {
  for (const F8Format format : {F8Format::e4m3, F8Format::e5m2})
    for (int code = 0; code < 256; ++code) {
      const auto c = static_cast<std::uint8_t>(code);
      const float value = from_f8(format, c);
      if (std::isfinite(value)) CHECK(code_of(format, value) == c);
    }
  // [fp8] table 1, by hand.
  CHECK(from_f8(F8Format::e4m3, 0x7e) == 448);
  CHECK(from_f8(F8Format::e4m3, 0x08) == 0x1p-6F);
  CHECK(from_f8(F8Format::e4m3, 0x01) == 0x1p-9F);
  CHECK(std::isnan(from_f8(F8Format::e4m3, 0x7f)));
  CHECK(from_f8(F8Format::e5m2, 0x7b) == 57344);
  CHECK(from_f8(F8Format::e5m2, 0x04) == 0x1p-14F);
  CHECK(from_f8(F8Format::e5m2, 0x81) == -0x1p-16F);
  CHECK(std::isinf(from_f8(F8Format::e5m2, 0x7c)));
  CHECK(std::isnan(from_f8(F8Format::e5m2, 0xfd)));
}

TEST_CASE("numbers become the nearest of 8 bits, ties even, and none becomes infinite") {
  Random r(81);
  for (const F8Format format : {F8Format::e4m3, F8Format::e5m2}) {
    std::vector<float> tried{0.0F, -0.0F, 1e-30F, 1e30F, -1e30F, INFINITY, -INFINITY};
    for (int code = 0; code + 1 < 0x7b; ++code) {  // halfway to the next code, and next to that
      const float a = from_f8(format, static_cast<std::uint8_t>(code));
      const float b = from_f8(format, static_cast<std::uint8_t>(code + 1));
      const float middle = (a + b) / 2;
      for (const float x : {middle, std::nextafter(middle, a), std::nextafter(middle, b)}) {
        tried.push_back(x);
        tried.push_back(-x);
      }
    }
    for (int i = 0; i < 2000; ++i)
      tried.push_back(static_cast<float>(r() * std::exp2(r() * 20)));
    for (const float x : tried) {
      INFO(x);
      CHECK(code_of(format, x) == nearest(format, x));
    }
    CHECK((code_of(format, NAN) & 0x7f) == 0x7f);
  }
}

TEST_CASE("matrices in 8 bits have the scales of their recipe, in both orders") {
  Random r(82);
  for (const F8Scaling scaling : {F8Scaling::tensorwise, F8Scaling::delayed, F8Scaling::rowwise,
                                  F8Scaling::blockwise, F8Scaling::mxfp8})
    for (const F8Operand operand : {F8Operand::input, F8Operand::weight, F8Operand::gradient})
      for (const bool by_columns : {false, true}) {
        // Neither blocks nor chunks of conversions divide these.
        Cast cast({scaling, operand, by_columns, 2, 5, 40}, r);
        CAPTURE(static_cast<int>(scaling), static_cast<int>(operand), by_columns);
        CHECK(cast.read() == cast.expected());
      }
  Cast high({F8Scaling::blockwise, F8Operand::input, true, 1, 130, 3}, r);
  CHECK(high.read() == high.expected());
  Cast wide({F8Scaling::tensorwise, F8Operand::weight, false, 1, 2, kChunk + 16}, r);
  CHECK(wide.read() == wide.expected());
  Cast row({F8Scaling::rowwise, F8Operand::input, false, 1, 2, 2 * kChunk + 16}, r, DType::f32);
  CHECK(row.read() == row.expected());
}

TEST_CASE("codes and scales take the bytes that the planner counts, and no more") {
  // By hand: 6 x 256 codes; one scale; one a row; 2 a row of 256; 8 a row of a byte each.
  const auto bytes = [](F8Scaling scaling, F8Operand operand, bool by_columns = false) {
    return F8Matrix{scaling, operand, by_columns, 2, 3, 256}.bytes().value() - 6 * 256;
  };
  CHECK(bytes(F8Scaling::tensorwise, F8Operand::input) == 4);
  CHECK(bytes(F8Scaling::tensorwise, F8Operand::weight) == 8);  // two experts
  CHECK(bytes(F8Scaling::rowwise, F8Operand::input) == 6 * 4);
  CHECK(bytes(F8Scaling::rowwise, F8Operand::input, true) == 256 * 4);
  CHECK(bytes(F8Scaling::rowwise, F8Operand::weight, true) == 2 * 256 * 4);
  CHECK(bytes(F8Scaling::blockwise, F8Operand::gradient) == 6 * 2 * 4);
  CHECK(bytes(F8Scaling::blockwise, F8Operand::gradient, true) == 2 * 256 * 4);
  CHECK(bytes(F8Scaling::blockwise, F8Operand::weight) == 2 * 2 * 4);
  CHECK(bytes(F8Scaling::mxfp8, F8Operand::input) == 6 * 8);
  CHECK(bytes(F8Scaling::mxfp8, F8Operand::weight, true) == 2 * 256);
  const F8Matrix m{F8Scaling::mxfp8, F8Operand::input, false, 1, 3, 33};
  Buffer x(DType::f32, Values(99, 1.5));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(m.bytes().value()) + 2, 0xa5);
  cast_to_f8({codes.data() + 1, DType::f8, &m}, x);
  CHECK(codes.front() == 0xa5);
  CHECK(codes.back() == 0xa5);
}

TEST_CASE("a tile of zeros stays zero, and a NaN spoils its tile alone") {
  const F8Matrix m{F8Scaling::rowwise, F8Operand::input, false, 1, 3, 4};
  Buffer x(DType::f32, Values{0, 0, 0, 0, 1, NAN, 3, 4, -8, 2, 0, 8});
  Buffer codes(DType::u8, m.bytes().value());
  const View v{codes.view().data, DType::f8, &m};
  cast_to_f8(v, x);
  std::vector<float> out(12);
  load_f8(v, 12, out.data());
  for (int i = 0; i < 4; ++i) CHECK(out[static_cast<std::size_t>(i)] == 0);
  for (int i = 4; i < 8; ++i) CHECK(std::isnan(out[static_cast<std::size_t>(i)]));
  CHECK(out[8] == -8);
  CHECK(out[9] == 2);
}

TEST_CASE("products of matrices in 8 bits are those of what their codes stand for") {
  Random r(83);
  const LinearShape s{6, 32, 48, 32, 48};
  Scratch ws(linear_workspace(DType::bf16, s));
  const auto decoded = [](Cast& c) { return Buffer(DType::f32, c.read()); };
  Cast x({F8Scaling::blockwise, F8Operand::input, false, 2, 3, 48}, r);
  Cast w({F8Scaling::blockwise, F8Operand::weight, false, 1, 32, 48}, r);
  Buffer y(DType::bf16, 6 * 32), y2 = y, bias = random(r, DType::bf16, 32);
  Buffer x32 = decoded(x), w32 = decoded(w);
  linear(y, x.view(), w.view(), bias, s, false, ws);
  linear(y2, x32, w32, bias, s, false, ws);
  CHECK(y == y2);
  Cast dy({F8Scaling::tensorwise, F8Operand::gradient, true, 2, 3, 32}, r);
  Cast turned({F8Scaling::tensorwise, F8Operand::input, true, 2, 3, 48}, r);
  Buffer dw = random(r, DType::f32, 32 * 48), dw2 = dw, dy32 = decoded(dy), t32 = decoded(turned);
  linear_weight_gradient(dw, dy.view(), turned.view(), s, ws);
  linear_weight_gradient(dw2, dy32, t32, s, ws);
  CHECK(dw == dw2);
}
