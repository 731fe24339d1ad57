// Operators of transformer blocks beyond GPT-2's: attention with grouped queries, rotary positions,
// RMS norm, gated feed-forward, BERT's token types and pooler. Counts as in operators.cpp.
#include "models/operator_work.hpp"

namespace models {

// Per element. rms_norm: squares and sum 2, x rstd gamma 2; backward: dy gamma 1, x dy gamma and
// its sum 2, x rstd and dx 3; dgamma 2.
constexpr double kRmsForward = 4, kRmsInputGradient = 6, kRmsWeightGradient = 2;

TensorIndex rms_norm(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                     std::int64_t n, ParameterIndex gamma, double offset) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  const TensorIndex rstd = b.tensor(name + ".rstd", TensorRole::statistic, rows);
  Operator op = shaped(name, OpKind::rms_norm, rows, n, n);
  op.inputs = {x};
  op.outputs = {y, rstd};
  op.parameters = {gamma};
  op.gamma_offset = offset;
  op.saved = {x, rstd};
  op.flops_forward = flops(kRmsForward, rows, n);
  op.flops_input_gradient = flops(kRmsInputGradient, rows, n);
  if (trained(b, gamma)) op.flops_weight_gradient = flops(kRmsWeightGradient, rows, n);
  op.elements_forward = 2 * rows * n + rows;
  op.elements_backward = 3 * rows * n + rows;  // x, dy, dx
  op.parameter_elements = parameter_elements(b, op);
  b.keep_beside(op, b.kept.norm * static_cast<double>(rows * n));
  b.add(std::move(op));
  return y;
}

static Operator of_heads(const std::string& name, OpKind kind, std::int64_t rows, HeadShape shape) {
  Operator op = shaped(name, kind, rows, 0, 0);
  op.heads = shape.heads;
  op.kv_heads = shape.kv_heads;
  op.head_dim = shape.head_dim;
  op.value_dim = shape.value_dim;
  op.n = shape.heads * value_dim_of(op);
  op.k = qkv_columns(op);
  return op;
}

// The gradient is the rotation by the opposite angle, in place as well.
TensorIndex rope(SegmentBuilder& b, const std::string& name, TensorIndex qkv, std::int64_t seq,
                 HeadShape shape, std::int64_t rotated, double base, std::int64_t origins) {
  const std::int64_t rows = seq * origins;
  const TensorIndex y = b.tensor(name + ".out", b.tensor_at(qkv).role,
                                 b.tensor_at(qkv).per_sample, qkv);
  Operator op = of_heads(name, OpKind::rope, rows, shape);
  op.n = (shape.heads + shape.kv_heads) * rotated;
  op.rotary_base = base;
  op.origins = origins;
  op.inputs = {qkv};
  op.outputs = {y};
  count_pointwise(op);
  if (shape.heads == shape.kv_heads)
    b.keep_beside(op, b.kept.rotary * static_cast<double>(
                                          rows * shape.kv_heads *
                                          (shape.head_dim + value_dim_of(op))));
  b.add(std::move(op));
  return y;
}

// q and k are normalised, v is copied. Backward reads the original and makes a gradient of its own.
TensorIndex qk_norm(SegmentBuilder& b, const std::string& name, TensorIndex qkv, std::int64_t rows,
                    HeadShape shape, ParameterIndex q_gamma, ParameterIndex k_gamma,
                    double offset) {
  Operator op = of_heads(name, OpKind::qk_norm, rows, shape);
  const std::int64_t heads = shape.heads + shape.kv_heads;
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * op.k);
  const TensorIndex rstd = b.tensor(name + ".rstd", TensorRole::statistic, rows * heads);
  op.inputs = {qkv};
  op.outputs = {y, rstd};
  if (q_gamma >= 0) op.parameters = {q_gamma, k_gamma};
  op.gamma_offset = offset;
  op.saved = {qkv, rstd};
  op.flops_forward = flops(kRmsForward, rows, heads * shape.head_dim);
  op.flops_input_gradient = flops(kRmsInputGradient, rows, heads * shape.head_dim);
  if (trained(b, q_gamma))
    op.flops_weight_gradient = flops(kRmsWeightGradient, rows, heads * shape.head_dim);
  op.elements_forward = rows * (2 * op.k + heads);
  op.elements_backward = rows * (3 * op.k + heads);  // qkv, dy, dqkv
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

// Scores and context are two GEMMs of 2 s s h each: every query with every key. Kernels that skip
// the causal half do half of this work. Where attention has a window or chunks, only the keys that
// a query sees count (reach). The backward pass computes the scores again, and has five GEMMs for
// the two of the forward pass ([flash2] section 3.1): three as wide as a head's queries, two as
// wide as its values. Elements are those of a kernel that keeps the scores on chip; a kernel that
// stores them moves heads x s x s more in each pass.
TensorIndex attention(SegmentBuilder& b, const std::string& name, TensorIndex qkv,
                      std::int64_t seq, HeadShape shape, AttentionUse use) {
  const std::int64_t rows = seq * use.origins;
  Operator op = of_heads(name, OpKind::attention, rows, shape);
  op.origins = use.origins;
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * op.n);
  const TensorIndex lse = b.tensor(name + ".lse", TensorRole::statistic, rows * shape.heads);
  op.inputs = {qkv};
  op.outputs = {y, lse};
  const double bytes = b.kept.attention_output * static_cast<double>(rows * op.n);
  op.saved = {qkv, b.kept_as(op, y, bytes), lse};
  op.causal = use.causal;
  op.alibi = use.alibi;
  op.soft_cap = use.soft_cap;
  op.score_scale = use.score_scale;
  op.is_gemm = true;
  op.keys = use.keys > 0 ? use.keys : seq;
  if (use.window < op.keys) op.window_keys = use.window;
  if (use.chunk < op.keys) op.chunk_keys = use.chunk;
  const double column = 2 * reach(op) * static_cast<double>(op.heads);
  op.flops_forward = flops(column, rows, op.head_dim + value_dim_of(op));
  op.flops_input_gradient = flops(column, rows, 3 * op.head_dim + 2 * value_dim_of(op));
  if (use.sinks >= 0) op.parameters = {use.sinks};
  if (trained(b, use.sinks)) op.flops_weight_gradient = flops(3, rows, op.heads);
  op.elements_forward = rows * (op.k + op.n + op.heads);
  op.elements_backward = rows * (op.k + op.n + op.n + op.k + op.heads);  // qkv, y, dy, dqkv, lse
  b.keep_beside(op, b.kept.scores * static_cast<double>(rows * op.keys * shape.heads));
  b.add(std::move(op));
  return y;
}

// Both move as many elements as come: each rank keeps its share of what it has.
static TensorIndex exchanged(SegmentBuilder& b, const std::string& name, OpKind kind,
                             TensorIndex x, std::int64_t rows, HeadShape shape, std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = of_heads(name, kind, rows, shape);
  op.inputs = {x};
  op.outputs = {y};
  op.n = n;
  b.add(std::move(op));
  return y;
}

TensorIndex key_gather(SegmentBuilder& b, const std::string& name, TensorIndex qkv,
                       std::int64_t rows, HeadShape shape, std::int64_t sharers) {
  const std::int64_t n = (shape.heads + 2) * shape.head_dim;
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = of_heads(name, OpKind::key_gather, rows, shape);
  op.inputs = {qkv};
  op.outputs = {y};
  op.n = n;
  op.k = 2 * shape.head_dim / sharers;
  b.add(std::move(op));
  return y;
}

TensorIndex head_exchange(SegmentBuilder& b, const std::string& name, TensorIndex qkv,
                          std::int64_t rows, HeadShape shape) {
  const std::int64_t n = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;  // no narrow values
  return exchanged(b, name, OpKind::head_exchange, qkv, rows, shape, n);
}

TensorIndex row_exchange(SegmentBuilder& b, const std::string& name, TensorIndex attended,
                         std::int64_t rows, HeadShape shape) {
  return exchanged(b, name, OpKind::row_exchange, attended, rows, shape,
                   shape.heads * shape.head_dim);
}

TensorIndex gated(SegmentBuilder& b, const std::string& name, OpKind kind, TensorIndex x,
                  std::int64_t rows, std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = shaped(name, kind, rows, n, 2 * n);
  op.inputs = {x};
  op.outputs = {y};
  op.saved = {b.kept_as(x, b.kept.activation_input * static_cast<double>(2 * rows * n))};
  count_pointwise(op);
  b.keep_beside(op, (b.kept.gated + b.kept.activated) * static_cast<double>(rows * n));
  b.add(std::move(op));
  return y;
}

TensorIndex type_embedding(SegmentBuilder& b, const std::string& name, TensorIndex x,
                           TensorIndex types, std::int64_t rows, ParameterIndex table) {
  const Parameter& wtt = b.parameter_at(table);
  const std::int64_t n = wtt.shape[1];
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n, x);
  Operator op = shaped(name, OpKind::type_embedding, rows, n, wtt.shape[0]);
  op.inputs = {x, types};
  op.outputs = {y};
  op.parameters = {table};
  op.flops_forward = flops(1, rows, n);
  op.elements_forward = 2 * rows * n;
  op.parameter_elements = wtt.elements;  // a few rows, which stay in cache
  if (wtt.trainable) {
    op.saved = {types};
    op.flops_weight_gradient = flops(1, rows, n);
    op.elements_backward = rows * n;  // dy
  }
  b.add(std::move(op));
  return y;
}

TensorIndex first_token(SegmentBuilder& b, const std::string& name, TensorIndex x,
                        std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, n);
  Operator op = shaped(name, OpKind::first_token, 1, n, n);
  op.inputs = {x};
  op.outputs = {y};
  count_pointwise(op);
  b.add(std::move(op));
  return y;
}

TensorIndex sequence_gather(SegmentBuilder& b, const std::string& name, TensorIndex x,
                            std::int64_t rows, std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", b.tensor_at(x).role, rows * n);
  Operator op = shaped(name, OpKind::sequence_gather, rows, n, n);
  op.inputs = {x};
  op.outputs = {y};
  b.add(std::move(op));
  return y;
}

TensorIndex sequence_scatter(SegmentBuilder& b, const std::string& name, TensorIndex x,
                             std::int64_t rows, std::int64_t n, std::int64_t ways) {
  const TensorIndex y = b.tensor(name + ".out", b.tensor_at(x).role, rows / ways * n);
  Operator op = shaped(name, OpKind::sequence_scatter, rows, n, n);
  op.inputs = {x};
  op.outputs = {y};
  b.add(std::move(op));
  return y;
}

}  // namespace models
