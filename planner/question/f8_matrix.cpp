#include "planner/question/f8_matrix.hpp"

#include <algorithm>

#include "planner/question/job.hpp"

namespace planner {
namespace {

constexpr std::int64_t kTile = 128;   // [deepseekv3] section 3.3.2
constexpr std::int64_t kMxTile = 32;       // [mx]
constexpr std::int64_t kScaleBytes = 4;

std::int64_t tiles(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

}  // namespace

std::optional<F8Scaling> f8_scaling_from_name(std::string_view text) {
  const auto at = std::ranges::find(kFp8Scalings, text);
  if (at == kFp8Scalings.end()) return std::nullopt;
  return static_cast<F8Scaling>(at - kFp8Scalings.begin());
}

F8Format F8Matrix::format() const {
  const bool hybrid = scaling == F8Scaling::tensorwise || scaling == F8Scaling::delayed;
  return hybrid && operand == F8Operand::gradient ? F8Format::e5m2 : F8Format::e4m3;
}

bool F8Matrix::reads_twice() const {
  return scaling == F8Scaling::tensorwise || (scaling == F8Scaling::rowwise && by_columns);
}

std::int64_t F8Matrix::tile_rows() const {
  const std::int64_t all = operand == F8Operand::weight ? rows : 0;
  switch (scaling) {
    case F8Scaling::tensorwise:
    case F8Scaling::delayed: return all;
    case F8Scaling::rowwise: return by_columns ? all : 1;
    case F8Scaling::blockwise: return by_columns || operand == F8Operand::weight ? kTile : 1;
    case F8Scaling::mxfp8: return by_columns ? kMxTile : 1;
  }
  return all;
}

std::int64_t F8Matrix::tile_columns() const {
  switch (scaling) {
    case F8Scaling::tensorwise:
    case F8Scaling::delayed: return columns;
    case F8Scaling::rowwise: return by_columns ? 1 : columns;
    case F8Scaling::blockwise: return !by_columns || operand == F8Operand::weight ? kTile : 1;
    case F8Scaling::mxfp8: return by_columns ? 1 : kMxTile;
  }
  return columns;
}

std::int64_t F8Matrix::scales() const {
  const std::int64_t high = tile_rows();
  return (high == 0 ? 1 : groups * tiles(rows, high)) * tiles(columns, tile_columns());
}

core::Bytes F8Matrix::bytes() const {
  return core::Bytes(elements() + scales() * (exponents() ? 1 : kScaleBytes));
}

std::int64_t F8Matrix::code_at(std::int64_t row, std::int64_t column) const {
  if (!by_columns) return row * columns + column;
  if (per_sample()) return column * all_rows() + row;
  return (row / rows * columns + column) * rows + row % rows;
}

std::int64_t F8Matrix::scale_at(std::int64_t row, std::int64_t column) const {
  const std::int64_t wide = tile_columns(), high = tile_rows();
  const std::int64_t tile = high == 0 ? 0 : row / rows * tiles(rows, high) + row % rows / high;
  return tile * tiles(columns, wide) + column / wide;
}

}  // namespace planner
