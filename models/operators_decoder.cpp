// Operators of decoders since Llama: multipliers, gates of rows, latent attention's join, norms
// over the width of all heads. Counts as in operators.cpp.
#include "models/operator_work.hpp"

namespace models {

TensorIndex scale(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                  std::int64_t n, double factor) {
  const TensorIndex y = b.tensor(name + ".out", b.tensor_at(x).role, rows * n, x);
  Operator op = shaped(name, OpKind::scale, rows, n, n);
  op.inputs = {x};
  op.outputs = {y};
  op.scale = factor;
  count_pointwise(op);
  b.add(std::move(op));
  return y;
}

TensorIndex row_gate(SegmentBuilder& b, const std::string& name, TensorIndex x, TensorIndex gate,
                     std::int64_t rows, std::int64_t n, Gate kind) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = shaped(name, OpKind::row_gate, rows, n, n);
  op.router.sigmoid = kind == Gate::sigmoid;
  op.inputs = {x, gate};
  op.outputs = {y};
  op.saved = {x, gate};
  count_pointwise(op);
  b.add(std::move(op));
  return y;
}

TensorIndex latent_join(SegmentBuilder& b, const std::string& name, TensorIndex q, TensorIndex kv,
                        TensorIndex k_rope, std::int64_t rows, HeadShape shape,
                        std::int64_t rotated) {
  Operator op = shaped(name, OpKind::latent_join, rows, 0, rotated);
  op.heads = shape.heads;
  op.kv_heads = shape.kv_heads;
  op.head_dim = shape.head_dim;
  op.value_dim = shape.value_dim;
  op.n = qkv_columns(op);
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * op.n);
  op.inputs = {q, kv, k_rope};
  op.outputs = {y};
  count_pointwise(op);
  b.add(std::move(op));
  return y;
}

// Of q and k, per element: the square and its sum 2, x rstd gamma 2. Backward of the norm: dy gamma
// and its sum with x 3, dx 2; of the sums: 2; dgamma 3.
constexpr double kSquares = 2, kWidthForward = 2, kWidthInputGradient = 5, kWidthWeightGradient = 3;

static Operator over_width(const std::string& name, OpKind kind, std::int64_t rows,
                           HeadShape shape) {
  Operator op = shaped(name, kind, rows, (shape.heads + shape.kv_heads) * shape.head_dim, 0);
  op.heads = shape.heads;
  op.kv_heads = shape.kv_heads;
  op.head_dim = shape.head_dim;
  op.k = qkv_columns(op);
  return op;
}

TensorIndex width_norm(SegmentBuilder& b, const std::string& name, TensorIndex qkv,
                       std::int64_t rows, HeadShape shape, ParameterIndex q_gamma,
                       ParameterIndex k_gamma, std::int64_t tensor) {
  TensorIndex sums = b.tensor(name + ".sums", TensorRole::statistic, rows * 2);
  Operator squares = over_width(name + ".squares", OpKind::square_sums, rows, shape);
  squares.inputs = {qkv};
  squares.outputs = {sums};
  squares.saved = {qkv};
  squares.flops_forward = squares.flops_input_gradient = flops(kSquares, rows, squares.n);
  squares.elements_forward = rows * (squares.n + 2);
  squares.elements_backward = rows * (2 * squares.n + 2);
  b.add(std::move(squares));
  if (tensor > 1) {  // each rank's part of the sum, and its part of the sum's gradient
    sums = tensor_reduce(b, name + ".reduce", sums, rows, 2);
    if (!b.inference()) sums = tensor_copy(b, name + ".copy", sums, rows, 2);
  }
  Operator op = over_width(name, OpKind::width_norm, rows, shape);
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * op.k);
  op.inputs = {qkv, sums};
  op.outputs = {y};
  op.parameters = {q_gamma, k_gamma};
  op.saved = {qkv, sums};
  op.scale = static_cast<double>(tensor);  // of the columns that the sums are of
  op.flops_forward = flops(kWidthForward, rows, op.n);
  op.flops_input_gradient = flops(kWidthInputGradient, rows, op.n);
  if (trained(b, q_gamma)) op.flops_weight_gradient = flops(kWidthWeightGradient, rows, op.n);
  op.elements_forward = rows * (2 * op.k + 2);
  op.elements_backward = rows * (3 * op.k + 4);  // qkv, dy, dqkv; sums and theirs
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

}  // namespace models
