// The work of each operator, in one place. GEMMs count 2 m n k; a GEMM's bias is its epilogue and
// counts nothing. Elementwise operators count the arithmetic of their formula, an exp or tanh as
// one; they are bound by memory, so the counts of elements moved are what matters.
#include "models/operator_work.hpp"

#include <algorithm>

namespace models {

// Per element. layer_norm: mean 1, variance 3, (x - mean) rstd gamma + beta 4; backward: normalise
// 2, dy gamma 1, two row sums 3, dx 4; dgamma 2, dbeta 1.
constexpr double kNormForward = 8, kNormInputGradient = 10, kNormWeightGradient = 3;
// x - max, exp, sum.
constexpr double kSoftmaxSum = 3;
// exp(x - max), / sum, - 1 at the target, scale.
constexpr double kCrossEntropy = 5;
// y - target, square, sum; scale.
constexpr double kSquaredError = 4;

TensorIndex token_embedding(SegmentBuilder& b, const std::string& name, TensorIndex tokens,
                            std::int64_t rows, ParameterIndex table) {
  const Parameter& wte = b.parameter_at(table);
  const std::int64_t n = wte.shape[1];
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = shaped(name, OpKind::token_embedding, rows, n, wte.shape[0]);
  op.inputs = {tokens};
  op.outputs = {y};
  op.parameters = {table};
  op.elements_forward = 2 * rows * n;  // gathered rows are read, not the whole table
  if (wte.trainable) {
    op.saved = {tokens};
    op.flops_weight_gradient = flops(1, rows, n);
    op.elements_backward = 3 * rows * n;  // dy; gradient rows read and written
  }
  b.add(std::move(op));
  return y;
}

TensorIndex position_embedding(SegmentBuilder& b, const std::string& name, TensorIndex x,
                               std::int64_t rows, ParameterIndex table) {
  const Parameter& wpe = b.parameter_at(table);
  const std::int64_t n = wpe.shape[1];
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n, x);
  Operator op = shaped(name, OpKind::position_embedding, rows, n, wpe.shape[0]);
  op.inputs = {x};
  op.outputs = {y};
  op.parameters = {table};
  op.flops_forward = flops(1, rows, n);
  op.elements_forward = 2 * rows * n;
  op.parameter_elements = rows * n;  // the rows in use
  if (wpe.trainable) {
    op.flops_weight_gradient = flops(1, rows, n);
    op.elements_backward = rows * n;  // dy; the table's rows count per call
  }
  b.add(std::move(op));
  return y;
}

TensorIndex layer_norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                       std::int64_t rows, std::int64_t n, NormParameters parameters) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  const TensorIndex mean = b.tensor(name + ".mean", TensorRole::statistic, rows);
  const TensorIndex rstd = b.tensor(name + ".rstd", TensorRole::statistic, rows);
  Operator op = shaped(name, OpKind::layer_norm, rows, n, n);
  op.inputs = {x};
  op.outputs = {y, mean, rstd};
  op.parameters = {parameters.gamma};
  if (parameters.beta >= 0) op.parameters.push_back(parameters.beta);
  op.saved = {x, mean, rstd};  // dx needs all three, with gamma frozen too
  op.flops_forward = flops(kNormForward, rows, n);
  op.flops_input_gradient = flops(kNormInputGradient, rows, n);
  if (trained(b, parameters.gamma))
    op.flops_weight_gradient = flops(kNormWeightGradient, rows, n);
  op.elements_forward = 2 * rows * n + 2 * rows;
  op.elements_backward = 3 * rows * n + 2 * rows;  // x, dy, dx
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

std::int64_t logit_row(std::int64_t n, const KeptBeside& kept) {
  const std::int64_t row = (n + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  return kept.aligned_logits && (row - n) * 100 < n ? row : n;
}

// kept: what the weight gradient reads for x.
static TensorIndex product(SegmentBuilder& b, const std::string& name, TensorIndex x,
                           TensorIndex kept, LinearShape shape, ParameterIndex weight,
                           ParameterIndex bias, TensorRole role) {
  const std::int64_t row = std::max(shape.n, shape.row_length);
  const TensorIndex y = b.tensor(name + ".out", role, shape.rows * row);
  Operator op = shaped(name, OpKind::linear, shape.rows, shape.n, shape.k);
  op.row_length = shape.row_length;
  op.inputs = {x};
  op.outputs = {y};
  op.parameters = {weight};
  if (bias >= 0) op.parameters.push_back(bias);
  if (trained(b, weight)) op.saved = {kept};
  count_product(op, 1, trained(b, weight));
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

TensorIndex linear(SegmentBuilder& b, const std::string& name, TensorIndex x, LinearShape shape,
                   ParameterIndex weight, ParameterIndex bias, TensorRole role) {
  const TensorIndex kept = trained(b, weight) ? b.kept_input(x) : x;
  return product(b, name, x, kept, shape, weight, bias, role);
}

TensorIndex wide_linear(SegmentBuilder& b, const std::string& name, TensorIndex x,
                        LinearShape shape, ParameterIndex weight, TensorRole role,
                        ParameterIndex bias) {
  return product(b, name, x, x, shape, weight, bias, role);
}

TensorIndex dense(SegmentBuilder& b, const std::string& name, TensorIndex x, LinearShape shape,
                  ParameterIndex weight, ParameterIndex bias, Activation activation,
                  TensorRole role) {
  const bool split = activation == Activation::gelu_tanh;
  const TensorIndex y = b.tensor(name + ".out", role, shape.rows * shape.n);
  Operator op = shaped(name, OpKind::dense, shape.rows, shape.n, shape.k);
  op.activation = split ? Activation::identity : activation;
  op.inputs = {x};
  op.outputs = {y};
  op.parameters = {weight, bias};
  op.saved = {x};
  if (op.activation != Activation::identity) op.saved.push_back(y);
  count_product(op, 1, trained(b, weight));
  if (op.activation != Activation::identity) op.elements_backward += shape.rows * shape.n;  // y
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return split ? unary(b, name + ".gelu", OpKind::gelu, y, shape.rows, shape.n,
                       {.form = Activation::gelu_tanh})
               : y;
}

TensorIndex lora_up(SegmentBuilder& b, const std::string& name, TensorIndex base, TensorIndex u,
                    LinearShape per_group, ParameterIndex weight,
                    std::vector<std::int64_t> column_offsets) {
  const Tensor at = b.tensor_at(base);
  const TensorIndex y = b.tensor(name + ".out", at.role, at.per_sample, base);
  Operator op = shaped(name, OpKind::lora_up, per_group.rows, per_group.n, per_group.k);
  op.groups = static_cast<std::int64_t>(column_offsets.size());
  op.column_offsets = std::move(column_offsets);
  op.inputs = {base, u};
  op.outputs = {y};
  op.parameters = {weight};
  op.saved = {u};
  count_product(op, op.groups, trained(b, weight));
  op.elements_forward += op.rows * op.groups * op.n;  // base is read and written
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

TensorIndex unary(SegmentBuilder& b, const std::string& name, OpKind kind, TensorIndex x,
                  std::int64_t rows, std::int64_t n, UnaryUse use) {
  const bool in_place = use.in_place;
  const TensorIndex y = b.tensor(name + ".out", use.role, rows * n, in_place ? x : kNoTensor);
  Operator op = shaped(name, kind, rows, n, n);
  op.scale = use.factor;
  op.inputs = {x};
  op.outputs = {y};
  op.saved = {ops::kept_of_unary(kind) == "x" ? x : y};
  op.activation = use.form;
  count_pointwise(op);
  const bool halves = ops::is_activation(kind) && n % 2 == 0;
  if (halves) b.keep_beside(op, b.kept.activated * static_cast<double>(rows * (n / 2)));
  b.add(std::move(op));
  return y;
}

// x is kept by a norm, so y takes the branch's place. Backward hands dy to both inputs; summing it
// into the branch's gradient moves dx, dy and their sum.
TensorIndex add(SegmentBuilder& b, const std::string& name, TensorIndex x, TensorIndex branch,
                std::int64_t rows, std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n, branch);
  Operator op = shaped(name, OpKind::add, rows, n, n);
  op.inputs = {x, branch};
  op.outputs = {y};
  count_pointwise(op);
  b.add(std::move(op));
  return y;
}

TensorIndex bias_add(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                     std::int64_t n, ParameterIndex bias) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n, x);
  Operator op = shaped(name, OpKind::bias_add, rows, n, n);
  op.inputs = {x};
  op.outputs = {y};
  op.parameters = {bias};
  op.flops_forward = flops(1, rows, n);
  op.elements_forward = 2 * rows * n;
  if (trained(b, bias)) {
    op.flops_weight_gradient = flops(1, rows, n);
    op.elements_backward = rows * n;  // the column sum reads dy
  }
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

TensorIndex tensor_copy(SegmentBuilder& b, const std::string& name, TensorIndex x,
                        std::int64_t rows, std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", b.tensor_at(x).role, rows * n, x);
  Operator op = shaped(name, OpKind::tensor_copy, rows, n, n);
  op.inputs = {x};
  op.outputs = {y};
  b.add(std::move(op));
  return y;
}

TensorIndex tensor_reduce(SegmentBuilder& b, const std::string& name, TensorIndex x,
                          std::int64_t rows, std::int64_t n, ReduceUse use) {
  const TensorIndex y = b.tensor(name + ".out", b.tensor_at(x).role, rows * n, x);
  Operator op = shaped(name, OpKind::tensor_reduce, rows, n, n);
  op.inputs = {x};
  op.outputs = {y};
  op.reduce_max = use.maximum;
  op.loss_traffic = use.loss_traffic;
  b.add(std::move(op));
  return y;
}

static TensorIndex softmax_statistic(SegmentBuilder& b, Operator op, std::int64_t per_row,
                                     double flops_per_element) {
  const TensorIndex y = b.tensor(op.name, TensorRole::statistic, op.rows * per_row);
  op.outputs = {y};
  op.flops_forward = flops(flops_per_element, op.rows, op.n);
  op.elements_forward = op.rows * (op.n + per_row);
  b.add(std::move(op));
  return y;
}

// Bytes of a logit of another tensor rank: 16 bits, concatenated (Megatron-LM d98e8a6,
// tensor_parallel/mappings.py, _gather_along_last_dim).
constexpr double kGatheredLogit = 2;

void cross_entropy_loss(SegmentBuilder& b, TensorIndex logits, TensorIndex targets,
                        std::int64_t rows, std::int64_t n, std::int64_t tensor, double weight) {
  const std::int64_t row = b.tensor_at(logits).per_sample / rows;
  Operator find_max = shaped("head.max", OpKind::softmax_max, rows, n, n);
  find_max.inputs = {logits};
  find_max.row_length = row;
  TensorIndex max = softmax_statistic(b, std::move(find_max), 1, 1);
  if (tensor > 1) max = tensor_reduce(b, "head.max_reduce", max, rows, 1, {true, true});

  Operator find_sums = shaped("head.sums", OpKind::softmax_sum, rows, n, n);
  find_sums.inputs = {logits, max, targets};
  find_sums.row_length = row;
  TensorIndex sums = softmax_statistic(b, std::move(find_sums), 2, kSoftmaxSum);
  if (tensor > 1) sums = tensor_reduce(b, "head.sums_reduce", sums, rows, 2, {false, true});

  Operator loss = shaped("head.loss", OpKind::cross_entropy, rows, n, n);
  loss.inputs = {logits, max, sums, targets};
  loss.row_length = row;
  loss.scale = weight;
  loss.saved = {logits};  // by now their own gradient
  loss.flops_forward = flops(kCrossEntropy, rows, n);
  loss.elements_forward = 2 * rows * n + 3 * rows;
  const bool gathered = b.kept.gathered_logits && tensor > 1;
  const double kept = b.kept.logits + (gathered ? kGatheredLogit : 0);
  b.keep_beside(loss, kept * static_cast<double>(rows * (gathered ? n * tensor : n)),
                TensorRole::logits_bytes);
  b.add(std::move(loss));
}

void squared_error_loss(SegmentBuilder& b, TensorIndex y, TensorIndex target, std::int64_t n) {
  Operator loss = shaped("head.loss", OpKind::squared_error, 1, n, n);
  loss.inputs = {y, target};
  loss.saved = {y};  // by now its own gradient
  loss.flops_forward = flops(kSquaredError, 1, n);
  loss.elements_forward = 3 * n;
  b.add(std::move(loss));
}

}  // namespace models
