#pragma once
// F8Matrix: how 8-bit floating-point codes and their scales stand for a matrix that a product reads
// (--precision fp8). An element is its code's value times the scale of its tile. First come the
// codes, a byte each, then the scales. Value type; pure; thread-safe.
//
// Which elements share a scale is job.hpp's kFp8Scalings. "A row" there is what one sum of the
// product reads: for products that sum over rows, a column. Scales are f32; rowwise ones are powers
// of 2 [torchao], and those of mxfp8 exponents of 8 bits [mx]. Codes are e4m3, but for gradients
// with one scale a tensor, which are e5m2 (TransformerEngine, Format.HYBRID).
//
// 8-bit tensor cores multiply matrices alone whose elements lie in the order in which the product
// sums them (cuBLAS library documentation, cublasLtMatmul: fp8 kernels want A transposed and B
// not). So products that sum over columns and over rows read different copies of a matrix.

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/units.hpp"

namespace planner {

enum class F8Scaling : std::uint8_t { tensorwise, delayed, rowwise, blockwise, mxfp8 };
std::optional<F8Scaling> f8_scaling_from_name(std::string_view text);

// Bits of exponent and mantissa, behind one of sign. e4m3 has magnitudes up to 448 and no infinity;
// e5m2 up to 57344 [fp8].
enum class F8Format : std::uint8_t { e4m3, e5m2 };

// input, gradient: rows of the micro-batch. weight: one matrix, or one for each expert.
enum class F8Operand : std::uint8_t { input, weight, gradient };

struct F8Matrix {
  F8Scaling scaling{};
  F8Operand operand{};
  bool by_columns = false;             // codes lie column by column: products sum over rows
  // `groups` matrices [rows, columns] behind each other: a micro-batch's samples, or experts.
  std::int64_t groups = 1, rows = 0, columns = 0;

  F8Format format() const;
  bool per_sample() const { return operand != F8Operand::weight; }
  bool exponents() const { return scaling == F8Scaling::mxfp8; }  // as scales, a byte each
  bool powers_of_2() const { return exponents() || scaling == F8Scaling::rowwise; }
  // Whether kernels read all of the matrix for the scales, before they read it again to cast it.
  bool reads_twice() const;
  // The size of a tile, whose elements share a scale. 0 rows: as high as all groups together.
  std::int64_t tile_rows() const, tile_columns() const;
  std::int64_t all_rows() const { return groups * rows; }
  std::int64_t elements() const { return groups * rows * columns; }
  std::int64_t scales() const;
  core::Bytes bytes() const;
  // Where the code of an element lies, and which scale is its own. row: of all groups.
  std::int64_t code_at(std::int64_t row, std::int64_t column) const;
  std::int64_t scale_at(std::int64_t row, std::int64_t column) const;
  friend bool operator==(const F8Matrix&, const F8Matrix&) = default;
};

}  // namespace planner
