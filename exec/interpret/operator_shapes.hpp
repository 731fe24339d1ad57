#pragma once
// The shapes that kernels are called with, from an operator of the graph: `rows` are those of all
// samples of a micro-batch. Pure; shared by every backend.

#include "exec/host/kernels.hpp"
#include "exec/interpret/kernels.hpp"

namespace exec {

inline host::LinearShape linear_shape(const models::Operator& op, std::int64_t rows) {
  return {rows, op.n, op.k, op.n, op.k};
}

inline host::LoraShape lora_shape(const models::Operator& op, std::int64_t rows, std::int64_t ldy) {
  return {rows, op.n, op.k, op.column_offsets, ldy, op.scale};
}

inline host::AttentionShape attention_shape(const models::Operator& op, std::int64_t samples) {
  return {samples, op.rows, op.heads, op.kv_heads, op.head_dim, op.causal};
}

inline host::HeadShape head_shape(const models::Operator& op, std::int64_t rows) {
  return {rows, op.heads, op.kv_heads, op.head_dim};
}

inline host::Rotation rotation(const models::Operator& op, bool inverse) {
  return {op.n / (op.heads + op.kv_heads), op.rows, inverse};
}

inline host::LogitShape logit_shape(const models::Operator& op, std::int64_t rows,
                                    const KernelContext& c) {
  // A chain's classes are its output's width; a language model's vocabulary may be padded.
  const std::int64_t vocab = c.vocab > 0 ? c.vocab : op.n;
  return {rows, op.n, op.n, c.tensor_rank * op.n, vocab};
}

// Where this rank's rows begin in the table of positions: it has all, or a tensor rank's piece.
inline std::int64_t first_position(const models::Operator& op, const KernelContext& c) {
  return op.rows == c.seq_len ? 0 : c.tensor_rank * op.rows * op.n;
}

}  // namespace exec
