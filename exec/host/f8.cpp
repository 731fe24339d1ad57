#include "exec/host/f8.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "exec/host/convert.hpp"

namespace exec::host {
namespace {

using planner::F8Format;
using planner::F8Matrix;

// [fp8] table 1. Of e4m3 the last code of each sign is NaN, of e5m2 the codes of halves' infinities
// and NaNs are.
float decode(F8Format format, std::uint8_t code) {
  const int mantissa_bits = format == F8Format::e4m3 ? 3 : 2;
  const int bias = format == F8Format::e4m3 ? 7 : 15;
  const int magnitude = code & 0x7f, exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const float sign = (code & 0x80) != 0 ? -1.0F : 1.0F;
  if (format == F8Format::e4m3 && magnitude == 0x7f)
    return std::numeric_limits<float>::quiet_NaN();
  if (format == F8Format::e5m2 && magnitude >= 0x7c)
    return magnitude == 0x7c ? sign * std::numeric_limits<float>::infinity()
                             : std::numeric_limits<float>::quiet_NaN();
  const float one = exponent == 0 ? 0.0F : static_cast<float>(1 << mantissa_bits);
  return sign * std::ldexp(one + static_cast<float>(mantissa),
                           std::max(exponent, 1) - bias - mantissa_bits);
}

const std::array<float, 256>& values(F8Format format) {
  const auto table = [](F8Format f) {
    std::array<float, 256> of{};
    for (std::size_t code = 0; code < of.size(); ++code)
      of[code] = decode(f, static_cast<std::uint8_t>(code));
    return of;
  };
  static const std::array<float, 256> e4m3 = table(F8Format::e4m3), e5m2 = table(F8Format::e5m2);
  return format == F8Format::e4m3 ? e4m3 : e5m2;
}

std::byte* scales_of(const View& v) {
  return static_cast<std::byte*>(v.data) + v.f8->elements();
}

// Scales follow the codes, so their addresses may not be aligned for a float.
float scale_of(const View& v, std::int64_t index) {
  const std::byte* const scales = scales_of(v);
  if (v.f8->exponents())
    return std::ldexp(1.0F, static_cast<int>(scales[index]) - 127);
  float scale;
  std::memcpy(&scale, scales + index * std::int64_t{sizeof scale}, sizeof scale);
  return scale;
}

void put_scale(const View& v, std::int64_t index, float scale) {
  std::byte* const scales = scales_of(v);
  if (v.f8->exponents())
    scales[index] = static_cast<std::byte>(std::ilogb(scale) + 127);
  else
    std::memcpy(scales + index * std::int64_t{sizeof scale}, &scale, sizeof scale);
}

// The least scale of its kind by which no element of the tile is beyond the greatest code.
float scale_for(const F8Matrix& matrix, float most) {
  if (most == 0) return 1;
  const float scale = most / greatest(matrix.format());
  if (!matrix.powers_of_2() || !std::isfinite(scale)) return scale;
  const int above = std::ilogb(scale) + (std::scalbn(1.0F, std::ilogb(scale)) < scale ? 1 : 0);
  return std::scalbn(1.0F, std::clamp(above, -126, 127));
}

// Casts a band of rows whose tiles end with it, some columns at a time.
class Caster {
 public:
  Caster(const View& to, const View& from) : to_(to), from_(from), m_(*to.f8) {}

  void band(std::int64_t first, std::int64_t rows) {
    const std::int64_t tile = m_.tile_columns();
    const std::int64_t span = tile >= kChunk ? tile : kChunk / tile * tile;
    for (std::int64_t c = 0; c < m_.columns; c += span) {
      const std::int64_t width = std::min(span, m_.columns - c);
      find_scales(first, rows, c, width);
      write_codes(first, rows, c, width);
    }
  }

 private:
  // use(row, column, count, x[count]) over a block.
  template <class Use>
  void each_chunk(std::int64_t first, std::int64_t rows, std::int64_t column, std::int64_t width,
                  Use&& use) {
    for (std::int64_t r = first; r < first + rows; ++r)
      for_chunks(width, [&](std::int64_t c, std::int64_t count) {
        float x[kChunk];
        load(from_.at(r * m_.columns + column + c), count, x);
        use(r, column + c, count, x);
      });
  }

  // As bits magnitudes have the order of integers, of which NaN is the greatest.
  void find_scales(std::int64_t first, std::int64_t rows, std::int64_t column,
                   std::int64_t width) {
    std::array<std::uint32_t, kChunk> most{};
    each_chunk(first, rows, column, width,
               [&](std::int64_t, std::int64_t, std::int64_t count, const float* x) {
                 for (std::int64_t i = 0; i < count; ++i)
                   most[static_cast<std::size_t>(i)] =
                       std::max(most[static_cast<std::size_t>(i)],
                                std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU);
               });
    const std::int64_t tile = std::min({m_.tile_columns(), width, kChunk});
    for (std::int64_t c = 0; c < std::min(width, kChunk); c += tile) {
      const auto begin = most.begin() + c, end = begin + std::min(tile, width - c);
      const float scale = scale_for(m_, std::bit_cast<float>(*std::max_element(begin, end)));
      const bool finite = std::isfinite(scale);
      put_scale(to_, m_.scale_at(first, column + c), finite ? scale : 1.0F);
      std::fill_n(inverse_.begin() + c, end - begin,
                  finite ? 1 / scale : std::numeric_limits<float>::quiet_NaN());
    }
  }

  void write_codes(std::int64_t first, std::int64_t rows, std::int64_t column,
                   std::int64_t width) {
    auto* const codes = static_cast<std::uint8_t*>(to_.data);
    const std::int64_t apart = m_.code_at(0, 1) - m_.code_at(0, 0);
    const auto each = [&](auto convert) {
      each_chunk(first, rows, column, width,
                 [&](std::int64_t r, std::int64_t c, std::int64_t count, const float* x) {
                   std::uint8_t* const to = codes + m_.code_at(r, c);
                   for (std::int64_t i = 0; i < count; ++i)
                     to[i * apart] = convert(x[i] * inverse_[static_cast<std::size_t>(i)]);
                 });
    };
    m_.format() == F8Format::e4m3 ? each(to_e4m3) : each(to_e5m2);
  }

  const View to_, from_;
  const F8Matrix& m_;
  // 1 / scale of each column of the block; one number where a tile is wider than a chunk.
  std::array<float, kChunk> inverse_{};
};

template <class T>
void load_as(const View& v, std::int64_t n, T* out) {
  const F8Matrix& m = *v.f8;
  const auto* const codes = static_cast<const std::uint8_t*>(v.data);
  const std::array<float, 256>& value = values(m.format());
  const std::int64_t wide = m.tile_columns(), apart = m.code_at(0, 1) - m.code_at(0, 0);
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t row = (v.first + i) / m.columns, column = (v.first + i) % m.columns;
    const std::int64_t run = std::min({n - i, m.columns - column, wide - column % wide});
    const float scale = scale_of(v, m.scale_at(row, column));
    const std::uint8_t* const from = codes + m.code_at(row, column);
    for (std::int64_t j = 0; j < run; ++j)
      out[i + j] = static_cast<T>(value[from[j * apart]] * scale);
    i += run;
  }
}

}  // namespace

float from_f8(F8Format format, std::uint8_t code) { return values(format)[code]; }

float greatest(F8Format format) { return format == F8Format::e4m3 ? 448.0F : 57344.0F; }

void cast_to_f8(View to, View from) {
  const F8Matrix& m = *to.f8;
  Caster caster(to, from);
  const std::int64_t high = m.tile_rows();
  if (high == 0) return caster.band(0, m.all_rows());
  for (std::int64_t g = 0; g < m.groups; ++g)
    for (std::int64_t r = 0; r < m.rows; r += high)
      caster.band(g * m.rows + r, std::min(high, m.rows - r));
}

void load_f8(const View& v, std::int64_t n, float* out) { load_as(v, n, out); }
void load_f8(const View& v, std::int64_t n, double* out) { load_as(v, n, out); }

}  // namespace exec::host
