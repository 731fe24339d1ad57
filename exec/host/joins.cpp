// What moves and masks elements without arithmetic of its own: dropout, joins, the first token.
#include "core/random.hpp"
#include "exec/host/graphs.hpp"
#include "exec/host/panel.hpp"

namespace exec::host {
namespace {

constexpr int kScale = 2;              // 1 / (1 - p), p = 1/2 [alexnet] section 4.2

std::uint8_t* bytes(const View& v) { return static_cast<std::uint8_t*>(v.data); }

}  // namespace

void dropout(View y, View mask, View x, const DropoutShape& s, const Draws& draws) {
  const core::Random random(draws.seed, draws.stream);
  const std::int64_t rows = s.samples * s.rows, before = draws.first_sample * s.rows;
  std::uint8_t* kept = bytes(mask);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = static_cast<std::uint64_t>((before + row) * s.columns + s.first);
    for (std::int64_t i = 0; i < s.width; ++i)
      *kept++ = static_cast<std::uint8_t>(random.below(first + static_cast<std::uint64_t>(i), 2));
  }
  dropout_gradient(y, x, mask, rows * s.width, false);
}

void dropout_gradient(View dx, View dy, View mask, std::int64_t n, bool accumulate) {
  with_compute_type(dy.type, [&]<class T>() {
    for_chunks(n, [&](std::int64_t c, std::int64_t m) {
      T d[kChunk];
      const std::uint8_t* const kept = bytes(mask) + c;
      load(dy.at(c), m, d);
      for (std::int64_t i = 0; i < m; ++i) d[i] = kept[i] != 0 ? d[i] * T(kScale) : T(0);
      give(dx.at(c), d, m, accumulate);
    });
  });
}

void put_columns(View wide, View narrow, const ColumnBlock& b) {
  for (std::int64_t r = 0; r < b.rows; ++r)
    cast(wide.at(r * b.columns + b.first), narrow.at(r * b.width), b.width);
}

void take_columns(View narrow, View wide, const ColumnBlock& b, bool accumulate) {
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const View to = narrow.at(r * b.width), from = wide.at(r * b.columns + b.first);
    accumulate ? add_into(to, from, b.width) : cast(to, from, b.width);
  }
}

void add_columns(View wide, View narrow, const ColumnBlock& b, bool accumulate) {
  if (!accumulate) fill_zero(wide, b.rows * b.columns);
  for (std::int64_t r = 0; r < b.rows; ++r)
    add_into(wide.at(r * b.columns + b.first), narrow.at(r * b.width), b.width);
}

void first_token(View y, View x, std::int64_t samples, std::int64_t rows, std::int64_t n) {
  for (std::int64_t i = 0; i < samples; ++i) cast(y.at(i * n), x.at(i * rows * n), n);
}

void first_token_gradient(View dx, View dy, std::int64_t samples, std::int64_t rows,
                          std::int64_t n, bool accumulate) {
  if (!accumulate) fill_zero(dx, samples * rows * n);
  for (std::int64_t i = 0; i < samples; ++i) add_into(dx.at(i * rows * n), dy.at(i * n), n);
}

}  // namespace exec::host
