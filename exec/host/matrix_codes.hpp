#pragma once
// Frozen matrices stored as codes, in the bytes that planner/question/quantization.hpp counts.
// Rounding is to the nearest code, ties to the lower. Stateless, thread-safe.
//
//   int8  a signed byte per weight, then an f32 scale per row: w = code scale, scale = greatest
//         magnitude of the row / 127 [llm_int8]
//   nf4   four bits per weight (the first of two in the low half), then a byte per block of 64 and
//   an
//         f32 per 256 blocks: w = level[code] scale, where scale, the greatest magnitude of the
//         block, is itself an 8-bit code of the unsigned map of quantise.hpp. Levels: [qlora]
//         appendix E
//   two_factor  exec/host/two_factor.hpp

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/host/view.hpp"
#include "planner/question/quantization.hpp"

namespace exec::host {

// What the 16 codes of nf4 stand for, ascending.
const std::array<float, 16>& nf4_levels();

// values[n] of a matrix of this shape (last axis: a row) to quantised_bytes(kind, shape) of codes,
// which may lie anywhere. Not for `none`.
void encode_matrix(planner::Quantization kind, std::span<const float> values,
                   const std::vector<std::int64_t>& shape, void* codes);
// y[n] from `bytes` of codes.
void decode_matrix(planner::Quantization kind, const void* codes, View y, std::int64_t n,
                   std::int64_t bytes);

}  // namespace exec::host
