#pragma once
// How frozen matrices are stored when the job quantises them: codes, and what decodes them. Bytes
// per matrix [n, k], computed by the rank that holds the shard. Pure; thread-safe.
//
//   int8        a byte per weight; an f32 scale per row of the matrix            [llm_int8]
//   nf4         4 bits per weight; scales quantised again: 8 bits per block of 64 weights, an f32
//               per 256 of those blocks                                          [qlora] section 3
//   gptq        4 bits per weight; an f16 scale and a 4-bit zero point per 128 weights; planned,
//               not executed                                                  [gptq]
//   two_factor  W = U + Q V: 2 bits per weight for each of U and V, and the 4 centroids of each, in
//               f32, per matrix; Q is orthogonal, made from a seed, not stored   [kashin]
// Only the matrices of layers that do not train are quantised: embeddings, head, norms and biases
// keep the compute type, as the cited systems have it.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace planner {

enum class Quantization : std::uint8_t { none, int8, nf4, two_factor, gptq };
std::optional<Quantization> quantization_from_name(std::string_view text);

// Whether a parameter of a layer is stored as codes.
bool is_quantised(Quantization kind, bool trainable, const std::vector<std::int64_t>& shape);

// Codes and decoding constants of a matrix of this shape (first axis: rows). Not for `none`.
core::Bytes quantised_bytes(Quantization kind, const std::vector<std::int64_t>& shape);

// Of these, the decoding constants.
core::Bytes decoding_bytes(Quantization kind, const std::vector<std::int64_t>& shape);

}  // namespace planner
