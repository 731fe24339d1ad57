#include "exec/host/work.hpp"

#include <algorithm>
#include <array>

#include "core/check.hpp"
#include "exec/host/experts.hpp"
#include "exec/host/gemm.hpp"
#include "exec/host/graph_shapes.hpp"
#include "exec/host/kernels.hpp"

namespace exec::host {

using models::OpKind;

namespace {

constexpr std::array<KernelInfo, 41> kTable{{
    {OpKind::token_embedding, "token_embedding", "", "token_embedding_weight_gradient"},
    {OpKind::position_embedding, "position_embedding", "", "position_embedding_weight_gradient"},
    {OpKind::layer_norm, "layer_norm", "layer_norm_input_gradient", "layer_norm_weight_gradient"},
    {OpKind::linear, "linear", "linear_input_gradient", "linear_weight_gradient"},
    {OpKind::lora_up, "lora_up", "lora_up_input_gradient", "lora_up_weight_gradient"},
    {OpKind::attention, "attention", "attention_input_gradient", ""},
    {OpKind::gelu, "gelu", "gelu_gradient", ""},
    {OpKind::add, "add", "add_into", ""},
    {OpKind::bias_add, "bias_add", "", "bias_gradient"},
    {OpKind::dense, "linear, activate", "activate_gradient, linear_input_gradient",
     "linear_weight_gradient, bias_gradient"},
    {OpKind::tensor_copy, "", "", ""},
    {OpKind::tensor_reduce, "", "", ""},
    {OpKind::sequence_gather, "", "", ""},
    {OpKind::sequence_scatter, "", "", ""},
    {OpKind::softmax_max, "softmax_max", "", ""},
    {OpKind::softmax_sum, "softmax_sum", "", ""},
    {OpKind::cross_entropy, "cross_entropy", "", ""},
    {OpKind::squared_error, "squared_error", "", ""},
    {OpKind::rms_norm, "rms_norm", "rms_norm_input_gradient", "rms_norm_weight_gradient"},
    {OpKind::qk_norm, "qk_norm", "qk_norm_input_gradient", "qk_norm_weight_gradient"},
    {OpKind::rope, "rotate", "rotate", ""},
    {OpKind::swiglu, "swiglu", "swiglu_gradient", ""},
    {OpKind::relu, "relu", "relu_gradient", ""},
    {OpKind::top_k, "top_k", "top_k_gradient", ""},
    {OpKind::dispatch, "dispatch", "dispatch_gradient", ""},
    {OpKind::expert_exchange, "", "", ""},
    {OpKind::head_exchange, "", "", ""},
    {OpKind::row_exchange, "", "", ""},
    {OpKind::expert_linear, "expert_linear", "expert_linear_input_gradient",
     "expert_linear_weight_gradient"},
    {OpKind::combine, "combine", "combine_gradient", ""},
    {OpKind::type_embedding, "type_embedding", "", "type_embedding_weight_gradient"},
    {OpKind::first_token, "first_token", "first_token_gradient", ""},
    {OpKind::convolution, "convolution", "convolution_input_gradient",
     "convolution_weight_gradient"},
    {OpKind::max_pool, "max_pool", "max_pool_gradient", ""},
    {OpKind::average_pool, "average_pool", "average_pool_gradient", ""},
    {OpKind::local_response_norm, "local_response_norm", "local_response_norm_gradient", ""},
    {OpKind::dropout, "dropout", "dropout_gradient", ""},
    {OpKind::concat, "put_columns", "take_columns", ""},
    {OpKind::cut_send, "", "", ""},
    {OpKind::cut_receive, "", "", ""},
    {OpKind::cut_sent, "", "", ""},
}};

// What one pass does on rows x n (all samples): operations, and elements by type of storage.
struct Count {
  double flops = 0;
  std::int64_t activation = 0, statistic = 0, weight = 0, gradient = 0;
  std::int64_t token = 0, mask = 0;
};

struct Dims {
  std::int64_t rows, n, k, groups;
  double size() const { return static_cast<double>(rows) * static_cast<double>(n); }
};

// Every parameter gradient is read and written: twice its elements.
Count embedding(Pass pass, const Dims& d, bool adds) {
  const std::int64_t e = d.rows * d.n;
  const double flops = d.size();
  if (pass == Pass::forward) {
    return adds ? Count{.flops = flops, .activation = 2 * e, .weight = e}
                : Count{.activation = e, .weight = e, .token = d.rows};
  }
  if (pass == Pass::input_gradient) return {};
  return {.flops = flops, .activation = e, .gradient = 2 * e, .token = adds ? 0 : d.rows};
}

// mean 1, variance 3, normalise and scale 4; dx: normalise 2, g 1, sums 3, combine 4; dgamma 2,
// dbeta 1.
Count norm(Pass pass, const Dims& d) {
  const std::int64_t e = d.rows * d.n;
  switch (pass) {
    case Pass::forward:
      return {
          .flops = 8 * d.size(), .activation = 2 * e, .statistic = 2 * d.rows, .weight = 2 * d.n};
    case Pass::input_gradient:
      return {.flops = 10 * d.size(), .activation = 3 * e, .statistic = 2 * d.rows, .weight = d.n};
    case Pass::weight_gradient:
      return {
          .flops = 3 * d.size(), .activation = 2 * e, .statistic = 2 * d.rows, .gradient = 4 * d.n};
  }
  return {};
}

// Squares 2, scale 2; dx: g 1, its product's sum 2, combine 3; dgamma 2. `each` elements of a row
// are normalised in `statistics` pieces, `passed` of it pass by.
Count rms(Pass pass, std::int64_t rows, std::int64_t each, std::int64_t statistics,
          std::int64_t passed, std::int64_t gammas) {
  const std::int64_t e = rows * each, moved = rows * (each + passed), s = rows * statistics;
  const auto flops = [&](double per) { return per * static_cast<double>(e); };
  switch (pass) {
    case Pass::forward:
      return {.flops = flops(4), .activation = 2 * moved, .statistic = s, .weight = gammas};
    case Pass::input_gradient:
      return {.flops = flops(6), .activation = 3 * e + 2 * rows * passed, .statistic = s,
              .weight = gammas};
    case Pass::weight_gradient:
      return {.flops = flops(2), .activation = 2 * e, .statistic = s, .gradient = 2 * gammas};
  }
  return {};
}

Count head_norm(Pass pass, const models::Operator& op, const Dims& d) {
  const std::int64_t heads = op.heads + op.kv_heads;
  return rms(pass, d.rows, heads * op.head_dim, heads, op.kv_heads * op.head_dim,
             2 * op.head_dim);
}

// 2 m n k per group in every pass; biases are epilogues.
Count product(Pass pass, const Dims& d, bool in_place, std::int64_t biases) {
  const std::int64_t ends = d.rows * d.groups * (d.n + d.k), weights = d.groups * d.n * d.k;
  Count c{.flops = 2.0 * d.size() * static_cast<double>(d.k * d.groups), .activation = ends};
  if (pass == Pass::weight_gradient) {
    c.gradient = 2 * (weights + biases);
    return c;
  }
  c.weight = weights;
  if (pass == Pass::forward) c.weight += biases;
  if (pass == Pass::forward && in_place) c.activation += d.rows * d.groups * d.n;
  return c;
}

// Two products of 2 rows seq n forward, five backward (scores are computed again).
// A kernel that stores the probabilities writes them forward, and reads them instead of one
// product.
Count attend(Pass pass, const models::Operator& op, const Dims& d) {
  PLANNER_CHECK(op.keys > 0, "attention without keys to attend to");
  const bool stores = op.outputs.size() > 2;
  const std::int64_t scores = stores ? d.rows * op.heads * op.keys : 0;
  const std::int64_t heads = op.heads, qkv = (op.heads + 2 * op.kv_heads) * op.head_dim;
  const std::int64_t out = heads * op.head_dim;
  const double product_flops =
      2.0 * static_cast<double>(d.rows * op.keys) * static_cast<double>(out);
  if (pass == Pass::forward) {
    return {.flops = 2 * product_flops,
            .activation = d.rows * (qkv + out) + scores,
            .statistic = d.rows * heads};
  }
  if (pass == Pass::weight_gradient) return {};
  return {.flops = (stores ? 4 : 5) * product_flops,
          .activation = d.rows * 2 * (qkv + out) + scores,
          .statistic = d.rows * heads};
}

// per: operations per element forward and backward; moved: tensors read or written.
Count pointwise(Pass pass, const Dims& d, std::array<double, 2> per,
                std::array<std::int64_t, 2> moved) {
  if (pass == Pass::weight_gradient) return {};
  const std::size_t i = pass == Pass::forward ? 0 : 1;
  return {.flops = per[i] * d.size(), .activation = moved[i] * d.rows * d.n};
}

Count forward_only(Pass pass, const Dims& d, double per, std::int64_t moved,
                   std::int64_t statistics, std::int64_t tokens) {
  if (pass != Pass::forward) return {};
  return {.flops = per * d.size(), .activation = moved * d.rows * d.n,
          .statistic = statistics * d.rows, .token = tokens * d.rows};
}

Count bias(Pass pass, const Dims& d) {
  if (pass == Pass::forward)
    return {.flops = d.size(), .activation = 2 * d.rows * d.n, .weight = d.n};
  if (pass == Pass::input_gradient) return {};
  return {.flops = d.size(), .activation = d.rows * d.n, .gradient = 2 * d.n};
}

// dense: the activation reads y and both reads and writes dy, or reads and writes y.
Count dense(Pass pass, const models::Operator& op, const Dims& d) {
  Count c = product(pass, d, false, op.parameters.size() > 1 ? d.n : 0);
  const bool active = op.activation != models::Activation::identity;
  if (active && pass == Pass::forward) c.activation += 2 * d.rows * d.n;
  if (active && pass == Pass::input_gradient) c.activation += 3 * d.rows * d.n;
  return c;
}

// Per logit: maximum, exp, sum, divide, a comparison per chosen one; softmax's derivative.
Count route(Pass pass, const Dims& d) {
  if (pass == Pass::weight_gradient) return {};
  const bool forward = pass == Pass::forward;
  const std::int64_t gates = d.rows * d.k * (forward ? 1 : 2);
  return {.flops = (forward ? 4.0 + static_cast<double>(d.k) : 4.0) * d.size(),
          .activation = d.rows * d.n + gates, .token = d.rows * d.k};
}

// k copies of a row go out, and their gradients add up.
Count copies(Pass pass, const Dims& d) {
  if (pass == Pass::weight_gradient) return {};
  const bool forward = pass == Pass::forward;
  return {.flops = forward ? 0 : static_cast<double>(d.k) * d.size(),
          .activation = d.rows * d.n * (forward ? 2 * d.k : d.k + 1), .token = d.rows * d.k};
}

// k rows times their gates; dx and dgate.
Count weighted(Pass pass, const Dims& d) {
  if (pass == Pass::weight_gradient) return {};
  const bool forward = pass == Pass::forward;
  return {.flops = (forward ? 2.0 : 3.0) * static_cast<double>(d.k) * d.size(),
          .activation = d.rows * d.n * (forward ? d.k + 1 : 2 * d.k + 1) +
                        d.rows * d.k * (forward ? 1 : 2),
          .token = d.rows * d.k};
}

// As product, of rows that are all experts' together.
Count expert_product(Pass pass, const Dims& d) {
  Count c = product(pass, {d.rows, d.n, d.k, 1}, false, 0);
  c.weight *= d.groups;
  c.gradient *= d.groups;
  return c;
}

// The product of the windows; what moves are the images, each once.
Count convolve(Pass pass, const models::Operator& op, const Dims& d) {
  const std::int64_t samples = d.rows / op.rows;
  const std::int64_t x = op.image.channels * op.image.height * op.image.width * samples;
  Count c = product(pass, d, false, op.parameters.size() > 1 ? d.n * d.groups : 0);
  c.activation = x + d.rows * d.n * d.groups;
  return c;
}

Count pooling(Pass pass, const models::Operator& op, const Dims& d) {
  if (pass == Pass::weight_gradient) return {};
  const bool maximum = op.kind == OpKind::max_pool;
  const std::int64_t x = op.image.height * op.image.width * d.rows / op.rows * d.n;
  const bool once = maximum && pass == Pass::input_gradient;
  return {.flops = (once ? 1.0 : static_cast<double>(d.k)) * d.size(),
          .activation = x + d.rows * d.n, .mask = maximum ? d.rows * d.n : 0};
}

Count masked(Pass pass, const Dims& d) {
  Count c = pointwise(pass, d, {2, 2}, {2, 2});
  if (pass != Pass::weight_gradient) c.mask = d.rows * d.n;
  return c;
}

Count count(OpKind kind, Pass pass, const models::Operator& op, const Dims& d) {
  switch (kind) {
    case OpKind::token_embedding: return embedding(pass, d, false);
    case OpKind::position_embedding: return embedding(pass, d, true);
    case OpKind::layer_norm: return norm(pass, d);
    case OpKind::linear: return product(pass, d, false, op.parameters.size() > 1 ? d.n : 0);
    case OpKind::lora_up: return product(pass, d, true, 0);
    case OpKind::attention: return attend(pass, op, d);
    case OpKind::gelu: return pointwise(pass, d, {9, 18}, {2, 3});
    case OpKind::add: return pointwise(pass, d, {1, 1}, {3, 3});
    case OpKind::bias_add: return bias(pass, d);
    case OpKind::dense: return dense(pass, op, d);
    case OpKind::softmax_max: return forward_only(pass, d, 1, 1, 1, 0);
    case OpKind::softmax_sum: return forward_only(pass, d, 3, 1, 3, 1);
    case OpKind::cross_entropy: return forward_only(pass, d, 5, 2, 3, 1);
    case OpKind::squared_error: return forward_only(pass, d, 4, 3, 0, 0);
    case OpKind::rms_norm: return rms(pass, d.rows, d.n, 1, 0, d.n);
    case OpKind::qk_norm: return head_norm(pass, op, d);
    case OpKind::rope: return pointwise(pass, d, {3, 3}, {2, 2});
    case OpKind::swiglu: return pointwise(pass, d, {5, 10}, {3, 5});
    case OpKind::relu: return pointwise(pass, d, {1, 1}, {2, 3});
    case OpKind::top_k: return route(pass, d);
    case OpKind::dispatch: return copies(pass, d);
    case OpKind::combine: return weighted(pass, d);
    case OpKind::expert_linear: return expert_product(pass, d);
    case OpKind::type_embedding: return embedding(pass, d, true);
    case OpKind::convolution: return convolve(pass, op, d);
    case OpKind::max_pool:
    case OpKind::average_pool: return pooling(pass, op, d);
    case OpKind::local_response_norm: {
      const auto window = static_cast<double>(d.k);
      return pointwise(pass, d, {2 * window + 4, 4 * window + 7}, {2, 3});
    }
    case OpKind::dropout: return masked(pass, d);
    case OpKind::concat:
    case OpKind::first_token: return pointwise(pass, d, {0, 0}, {2, 2});
    default: return {};
  }
  return {};
}

}  // namespace

Work work(OpKind kind, Pass pass, const models::Operator& op, std::int64_t samples,
          const KernelTypes& types) {
  const Dims d{op.rows * samples, op.n, op.k, op.groups};
  const Count c = count(kind, pass, op, d);
  using core::bytes_of;
  return {core::Flops(c.flops),
          bytes_of(c.activation, types.activation) + bytes_of(c.statistic, types.statistic) +
              bytes_of(c.weight, types.weight) + bytes_of(c.gradient, types.gradient) +
              bytes_of(c.token, core::DType::i32) + bytes_of(c.mask, core::DType::u8)};
}

std::span<const KernelInfo> kernel_table() { return kTable; }

bool computes(const models::Operator& op) {
  const bool known =
      std::ranges::any_of(kTable, [&](const KernelInfo& info) { return info.kind == op.kind; });
  const bool attends = !op.alibi || op.causal;  // linear biases look back alone
  const bool chooses = op.kind != OpKind::max_pool || op.window.kernel <= kWidestMaximum;
  const bool exact = op.activation == models::Activation::gelu_erf;  // not as dense's epilogue
  return known && attends && chooses && (!exact || op.kind == OpKind::gelu);
}

core::Bytes workspace_bytes(const models::Operator& op, std::int64_t samples,
                            const KernelTypes& types) {
  const std::int64_t rows = op.rows * samples;
  switch (op.kind) {
    case OpKind::linear:
    case OpKind::dense:
    case OpKind::lora_up:
      return linear_workspace(types.activation, {.rows = rows, .n = op.n, .k = op.k});
    case OpKind::top_k: return top_k_workspace({samples, op.rows, op.n, op.k});
    case OpKind::expert_linear:
      return expert_linear_workspace(types.activation,
                                     {samples, op.rows, op.n, op.k, op.groups, op.origins});
    case OpKind::attention: {
      const AttentionShape shape{.samples = samples, .seq = op.rows, .heads = op.heads,
                                 .kv_heads = op.kv_heads, .head_dim = op.head_dim,
                                 .keys = op.keys};
      return attention_workspace(types.activation, shape);
    }
    case OpKind::convolution:
      return convolution_workspace(types.activation, convolution_shape(op, samples));
    case OpKind::max_pool:
    case OpKind::average_pool:
      return pool_workspace(types.activation, window_shape(op, samples));
    case OpKind::local_response_norm:
      return local_response_workspace(types.activation, response_shape(op, samples));
    default: return core::Bytes(0);
  }
}

}  // namespace exec::host
