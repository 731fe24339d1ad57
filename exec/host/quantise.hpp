#pragma once
// Eight-bit block quantisation of optimizer state, as [dettmers8bit] (T. Dettmers et al., 8-bit
// Optimizers via Block-wise Quantization, ICLR 2022) section 2: each block of 256 elements is
// divided by its greatest magnitude, kept as an f32 scale, and each quotient becomes the index of
// the nearest value of a dynamic map. Stateless, thread-safe.
//
// The map. For e = 0..6 the decade (10^(e-7), 10^(e-6)] is cut into 2^e equal intervals (signed
// map) or 2^(e+1) (unsigned map), whose midpoints are values; with their negatives in the signed
// map, and 0 and 1, that makes 256. Sorted ascending, a code is an index; code 0 of the signed map
// is the most negative value. Values between two map entries go to the nearer, ties to the lower.

#include <array>
#include <cstdint>

namespace exec::host {

inline constexpr std::int64_t kQuantBlock = 256;

using CodeMap = std::array<float, 256>;
const CodeMap& signed_map();    // first moments
const CodeMap& unsigned_map();  // second moments

// x[0:n) from codes. REQUIRES: n <= kQuantBlock.
void dequantise(const CodeMap& map, const std::uint8_t* codes, float scale, std::int64_t n,
                float* x);
// Codes of x[0:n); returns the scale, 0 for a block of zeros (codes of 0).
float quantise(const CodeMap& map, const float* x, std::int64_t n, std::uint8_t* codes);

}  // namespace exec::host
