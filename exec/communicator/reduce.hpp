#pragma once
// Elementwise reduction of two vectors in their own type. Sums of 16-bit floats are taken in f32
// and rounded to nearest even. That is one rounding in effect: f32's 24 bits are at least 2p+2 for
// p = 8 and p = 11 (Figueroa 1995, "When is double rounding innocuous?").
// Pure functions; thread-safe.

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"
#include "sim/program/collective.hpp"

namespace exec {

// f64, f32, bf16, f16, i32.
bool reducible(core::DType type);

// out[i] = left[i] op right[i], i < n. out may be left or right. i32 sums wrap. max keeps a NaN of
// either side, so that a non-finite value is never hidden. REQUIRES: reducible(type).
void combine(const std::byte* left, const std::byte* right, std::byte* out, std::int64_t n,
             core::DType type, program::ReduceOp op);

// Round to nearest, ties to even; NaN stays NaN, overflow becomes infinity.
std::uint16_t bf16_from_float(float value);
float float_from_bf16(std::uint16_t bits);
std::uint16_t f16_from_float(float value);
float float_from_f16(std::uint16_t bits);

}  // namespace exec
