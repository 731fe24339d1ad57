#pragma once
// The shapes that kernels are called with, from an operator of the graph: `rows` are those of all
// samples of a micro-batch. Pure; shared by every backend.

#include <algorithm>

#include "exec/host/decoder.hpp"
#include "exec/host/experts.hpp"
#include "exec/host/graphs.hpp"
#include "exec/host/kernels.hpp"
#include "exec/interpret/kernels.hpp"

namespace exec {

inline std::int64_t row_length(const models::Operator& op) {
  return op.row_length > 0 ? op.row_length : op.n;
}

inline host::LinearShape linear_shape(const models::Operator& op, std::int64_t rows) {
  return {rows, op.n, op.k, row_length(op), op.k};
}

inline host::LoraShape lora_shape(const models::Operator& op, std::int64_t rows, std::int64_t ldy) {
  return {rows, op.n, op.k, op.column_offsets, ldy, op.scale};
}

// The block of a ring that the rank `ring_step` places before this one has. Under a causal mask
// queries see those of its runs that stand before their own (sim/program/sequence.hpp): of an
// earlier rank the first run; of a later one both, from the second run of queries alone.
inline void see_block(const models::Operator& op, const KernelContext& c,
                      host::AttentionShape& s) {
  const std::int64_t early = c.slice.early_rows();
  const bool before = op.ring_step <= c.slice.index;
  s.block = true;
  s.keys = op.rows;
  s.early = early;
  s.early_keys = !op.causal ? op.rows : before ? early : 0;
  s.late_keys = op.causal && before ? early : op.rows;
  s.causal = false;
}

inline host::Places places(const std::array<program::RowRun, 2>& runs) {
  return {runs[0].rows, runs[0].position, runs[1].position};
}

// Where heads are divided over the context ranks as well, these divide those of a tensor rank, and
// have the whole sequence; so have keys that were gathered. A ring's step has two runs of each.
inline host::LinearBiases biases(const models::Operator& op, const KernelContext& c) {
  const bool divided = op.rows > c.slice.rows;
  const std::int64_t rank =
      divided ? c.tensor_rank * c.slice.ranks + c.slice.index : c.tensor_rank;
  host::LinearBiases b{rank * op.heads, c.heads, {}, {}};
  if (divided) return b;
  b.queries = places(c.slice.runs());
  if (op.ring_steps == 0) return b;
  program::SequenceSlice theirs = c.slice;
  theirs.index = (c.slice.index + c.slice.ranks - static_cast<int>(op.ring_step)) % c.slice.ranks;
  b.keys = places(theirs.runs());
  return b;
}

inline host::AttentionShape attention_shape(const models::Operator& op, const KernelContext& c) {
  const std::int64_t rows = op.rows / op.origins;
  host::AttentionShape s{c.samples * op.origins, rows,        op.heads,
                         op.kv_heads,            op.head_dim, op.causal};
  s.window = op.window_keys;
  s.chunk = op.chunk_keys;
  s.soft_cap = op.soft_cap;
  s.scale = op.score_scale;
  s.value_dim = op.value_dim;
  if (op.alibi) s.biases = biases(op, c);
  if (op.ring_step > 0) see_block(op, c, s);
  if (op.keys == rows) return s;
  const auto [early, late] = c.slice.runs();
  s.keys = op.keys;
  s.early = early.rows;
  s.early_at = early.position;
  s.late_at = late.position;
  return s;
}

inline host::HeadShape head_shape(const models::Operator& op, std::int64_t rows) {
  return {rows, op.heads, op.kv_heads, op.head_dim, op.value_dim};
}

// Where heads are divided over the context ranks as well, the first of this rank's among those of
// its tensor rank.
inline std::int64_t first_head(const models::Operator& op, const KernelContext& c) {
  return op.rows > c.slice.rows ? c.slice.index * op.heads : 0;
}

// Of a parameter with a number for each head of a tensor rank, those of the heads of this rank.
inline host::View own_heads(const host::View& v, const models::Operator& op,
                            const KernelContext& c) {
  return v ? v.at(first_head(op, c)) : v;
}

inline host::WidthNorm width_norm(const models::Operator& op, const KernelContext& c) {
  return {c.norm_epsilon, op.scale};
}

inline host::RowGates row_gates(const models::Operator& op, std::int64_t rows) {
  return {rows, op.n, !op.router.sigmoid};
}

inline host::RoutingShape routing_shape(const models::Operator& op, const KernelContext& c) {
  return {c.samples, op.rows, op.n, op.k, op.router};
}

inline host::CopyShape copy_shape(const models::Operator& op, std::int64_t rows) {
  return {rows, op.n, op.k, op.kind != models::OpKind::combine || op.weighs};
}

// Ranks that divide the inputs of an expert's last product each add the bias to some columns.
inline host::ExpertShape expert_shape(const models::Operator& op, const KernelContext& c) {
  const auto ways = static_cast<std::int64_t>(op.scale);
  const std::int64_t own = (op.n + ways - 1) / ways, first = ways > 1 ? c.tensor_rank * own : 0;
  const std::int64_t biased = std::clamp<std::int64_t>(op.n - first, 0, own);
  return {c.samples, op.rows, op.n, op.k, op.groups, op.origins, first, biased, own};
}

// Where input i of a concat, of so many elements, lies in its result.
inline host::ColumnBlock column_block(const models::Operator& op, std::size_t i,
                                      std::int64_t elements, std::int64_t samples) {
  const std::int64_t rows = op.rows * samples;
  return {rows, op.n, op.column_offsets[i], elements / rows};
}

// Rows of a sample in what the first token is taken from.
inline std::int64_t token_rows(const models::Operator& op, const Operand& x,
                               std::int64_t samples) {
  return x.elements / samples / op.n;
}

inline host::LogitShape logit_shape(const models::Operator& op, std::int64_t rows,
                                    const KernelContext& c) {
  // A chain's classes are its output's width; a language model's vocabulary may be padded.
  const std::int64_t vocab = c.vocab > 0 ? c.vocab : op.n;
  return {rows, op.n, row_length(op), c.tensor_rank * op.n, vocab};
}

// The loss is a mean over all tokens of the step.
inline host::LossFactor loss_factor(const models::Operator& op, const KernelContext& c) {
  const std::int64_t tokens = op.rows * op.parts * c.slice.ranks;
  return {op.scale / static_cast<double>(c.global_batch * tokens), c.loss_scale};
}

// Where the operator's rows begin in this rank's slice of the tokens: it has all, or a tensor
// rank's piece.
inline std::int64_t first_row(const models::Operator& op, const KernelContext& c) {
  return op.rows == c.slice.rows ? 0 : c.tensor_rank * op.rows;
}

// Rows of one sample, and where they stand in its sequence.
struct SampleRows {
  std::int64_t rows = 0;
  host::Places places;
};
inline SampleRows sample_rows(const models::Operator& op, const KernelContext& c) {
  const std::int64_t rows = op.rows / op.origins;
  if (op.rows > c.slice.rows) return {rows, {rows, 0, 0}};  // sequences are the operator's own
  return {rows, places(c.slice.runs(first_row(op, c), rows))};
}

inline host::Rotation rotation(const models::Operator& op, bool inverse, const KernelContext& c) {
  const auto [rows, places] = sample_rows(op, c);
  return {op.n / (op.heads + op.kv_heads), rows, inverse, places, op.rotary_base};
}

// use(first row among those of all samples, rows, position of the first), rows ascending.
template <class Use>
void each_run(const models::Operator& op, const KernelContext& c, Use&& use) {
  const auto [rows, places] = sample_rows(op, c);
  for (std::int64_t first = 0; first < c.samples * op.rows; first += rows) {
    if (places.early > 0) use(first, places.early, places.early_at);
    if (places.early < rows) use(first + places.early, rows - places.early, places.late_at);
  }
}

}  // namespace exec
