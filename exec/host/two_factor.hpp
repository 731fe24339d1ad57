#pragma once
// Frozen matrices as two factors of two bits each: W = U + Q V [kashin], U and V of 4 values
// (centroids) each. Stateless, thread-safe.
//
// Q is orthogonal and block-diagonal over the matrix as one vector: blocks of 256 weights, the rest
// in pieces of powers of two, each a normalised Walsh-Hadamard matrix after signs from a fixed
// seed. So decoding needs no memory beyond a block. Codes: four bits per weight, the first of two
// in the low half, U's two bits below V's; then the centroids of U and of V, ascending, in f32.

#include <span>

#include "exec/host/view.hpp"

namespace exec::host {

// Alternating least squares: each factor is the best of its 4 values for what the other leaves, and
// the values are the means of what was given to them. Allocates: used once, at the start.
void encode_two_factor(std::span<const float> values, std::byte* codes);
void decode_two_factor(const std::byte* codes, View y, std::int64_t n);

}  // namespace exec::host
