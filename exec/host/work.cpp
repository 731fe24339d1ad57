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
using models::ops::Kernel;
using models::ops::WorkOf;

namespace {

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
Count embedding(Kernel kernel, const Dims& d, bool adds) {
  const std::int64_t e = d.rows * d.n;
  const double flops = d.size();
  if (kernel == Kernel::forward) {
    return adds ? Count{.flops = flops, .activation = 2 * e, .weight = e}
                : Count{.activation = e, .weight = e, .token = d.rows};
  }
  if (kernel == Kernel::input_gradient) return {};
  return {.flops = flops, .activation = e, .gradient = 2 * e, .token = adds ? 0 : d.rows};
}

// mean 1, variance 3, normalise and scale 4; dx: normalise 2, g 1, sums 3, combine 4; dgamma 2,
// dbeta 1.
Count norm(Kernel kernel, const Dims& d) {
  const std::int64_t e = d.rows * d.n;
  switch (kernel) {
    case Kernel::forward:
      return {
          .flops = 8 * d.size(), .activation = 2 * e, .statistic = 2 * d.rows, .weight = 2 * d.n};
    case Kernel::input_gradient:
      return {.flops = 10 * d.size(), .activation = 3 * e, .statistic = 2 * d.rows, .weight = d.n};
    case Kernel::weight_gradient:
      return {
          .flops = 3 * d.size(), .activation = 2 * e, .statistic = 2 * d.rows, .gradient = 4 * d.n};
  }
  return {};
}

// Squares 2, scale 2; dx: g 1, its product's sum 2, combine 3; dgamma 2. `each` elements of a row
// are normalised in `statistics` pieces, `passed` of it pass by.
Count rms(Kernel kernel, std::int64_t rows, std::int64_t each, std::int64_t statistics,
          std::int64_t passed, std::int64_t gammas) {
  const std::int64_t e = rows * each, moved = rows * (each + passed), s = rows * statistics;
  const auto flops = [&](double per) { return per * static_cast<double>(e); };
  switch (kernel) {
    case Kernel::forward:
      return {.flops = flops(4), .activation = 2 * moved, .statistic = s, .weight = gammas};
    case Kernel::input_gradient:
      return {.flops = flops(6), .activation = 3 * e + 2 * rows * passed, .statistic = s,
              .weight = gammas};
    case Kernel::weight_gradient:
      return {.flops = flops(2), .activation = 2 * e, .statistic = s, .gradient = 2 * gammas};
  }
  return {};
}

Count head_norm(Kernel kernel, const models::Operator& op, const Dims& d) {
  const std::int64_t heads = op.heads + op.kv_heads;
  return rms(kernel, d.rows, heads * op.head_dim, heads, op.kv_heads * op.head_dim,
             2 * op.head_dim);
}

// Of q and k: squares and their sum 2; their derivative 2.
Count squares(Kernel kernel, const models::Operator& op, const Dims& d) {
  if (kernel == Kernel::weight_gradient) return {};
  const std::int64_t e = d.rows * (op.heads + op.kv_heads) * op.head_dim;
  return {.flops = 2 * static_cast<double>(e),
          .activation = kernel == Kernel::forward ? e : 2 * e,
          .statistic = 2 * d.rows};
}

// x rstd gamma 2; dy gamma and its sum with x 3, dx 2; dgamma 3. Values pass.
Count width_norm(Kernel kernel, const models::Operator& op, const Dims& d) {
  const std::int64_t n = (op.heads + op.kv_heads) * op.head_dim, e = d.rows * n;
  const std::int64_t all = d.rows * models::qkv_columns(op);
  const auto flops = [&](double per) { return per * static_cast<double>(e); };
  switch (kernel) {
    case Kernel::forward:
      return {.flops = flops(2), .activation = 2 * all, .statistic = 2 * d.rows, .weight = n};
    case Kernel::input_gradient:
      return {.flops = flops(5), .activation = 3 * all, .statistic = 4 * d.rows, .weight = n};
    case Kernel::weight_gradient:
      return {.flops = flops(3), .activation = 2 * e, .statistic = 2 * d.rows, .gradient = 2 * n};
  }
  return {};
}

// 2 m n k per group in every pass; biases are epilogues.
Count product(Kernel kernel, const Dims& d, bool in_place, std::int64_t biases) {
  const std::int64_t ends = d.rows * d.groups * (d.n + d.k), weights = d.groups * d.n * d.k;
  Count c{.flops = 2.0 * d.size() * static_cast<double>(d.k * d.groups), .activation = ends};
  if (kernel == Kernel::weight_gradient) {
    c.gradient = 2 * (weights + biases);
    return c;
  }
  c.weight = weights;
  if (kernel == Kernel::forward) c.weight += biases;
  if (kernel == Kernel::forward && in_place) c.activation += d.rows * d.groups * d.n;
  return c;
}

// Two products of 2 rows reach n forward, five backward (scores are computed again).
// A kernel that stores the probabilities writes them forward, and reads them instead of one
// product.
Count attend(Kernel kernel, const models::Operator& op, const Dims& d) {
  PLANNER_CHECK(op.keys > 0, "attention without keys to attend to");
  const bool stores = op.outputs.size() > 2;
  const std::int64_t scores = stores ? d.rows * op.heads * op.keys : 0;
  const std::int64_t heads = op.heads, qkv = models::qkv_columns(op);
  const std::int64_t out = heads * models::value_dim_of(op);
  const double column =
      2.0 * models::reach(op) * static_cast<double>(d.rows) * static_cast<double>(heads);
  const auto key = static_cast<double>(op.head_dim);
  const auto value = static_cast<double>(models::value_dim_of(op));
  if (kernel == Kernel::forward) {
    return {.flops = column * (key + value),
            .activation = d.rows * (qkv + out) + scores,
            .statistic = d.rows * heads};
  }
  if (kernel == Kernel::weight_gradient) {  // of sinks: a number of each row and head
    if (op.parameters.empty()) return {};
    return {.flops = 3.0 * static_cast<double>(d.rows * heads),
            .activation = 2 * d.rows * out, .statistic = d.rows * heads, .gradient = 2 * heads};
  }
  return {.flops = column * ((stores ? 2 : 3) * key + 2 * value),
          .activation = d.rows * 2 * (qkv + out) + scores,
          .statistic = d.rows * heads};
}

// By the numbers of the operator's schema.
Count pointwise(Kernel kernel, const models::ops::Work& w, const Dims& d) {
  const bool forward = kernel == Kernel::forward;
  const std::int64_t moved = forward ? w.moved_forward : w.moved_backward;
  if (kernel == Kernel::weight_gradient || moved == 0) return {};
  const std::int64_t e = d.rows * d.n;
  return {.flops = (forward ? w.flops_forward : w.flops_backward) * d.size(),
          .activation = moved * e,
          .statistic = forward ? w.statistics * d.rows : 0,
          .token = forward ? w.tokens * d.rows : 0,
          .mask = w.masks * e};
}

Count bias(Kernel kernel, const Dims& d) {
  if (kernel == Kernel::forward)
    return {.flops = d.size(), .activation = 2 * d.rows * d.n, .weight = d.n};
  if (kernel == Kernel::input_gradient) return {};
  return {.flops = d.size(), .activation = d.rows * d.n, .gradient = 2 * d.n};
}

// dense: the activation reads y and both reads and writes dy, or reads and writes y.
Count dense(Kernel kernel, const models::Operator& op, const Dims& d) {
  Count c = product(kernel, d, false, op.parameters.size() > 1 ? d.n : 0);
  const bool active = op.activation != models::Activation::identity;
  if (active && kernel == Kernel::forward) c.activation += 2 * d.rows * d.n;
  if (active && kernel == Kernel::input_gradient) c.activation += 3 * d.rows * d.n;
  return c;
}

// Per logit: maximum, exp, sum, divide, a comparison per chosen one; softmax's derivative.
Count route(Kernel kernel, const Dims& d) {
  if (kernel == Kernel::weight_gradient) return {};
  const bool forward = kernel == Kernel::forward;
  const std::int64_t gates = d.rows * d.k * (forward ? 1 : 2);
  return {.flops = (forward ? 4.0 + static_cast<double>(d.k) : 4.0) * d.size(),
          .activation = d.rows * d.n + gates, .token = d.rows * d.k};
}

// k copies of a row go out, and their gradients add up.
Count copies(Kernel kernel, const Dims& d) {
  if (kernel == Kernel::weight_gradient) return {};
  const bool forward = kernel == Kernel::forward;
  return {.flops = forward ? 0 : static_cast<double>(d.k) * d.size(),
          .activation = d.rows * d.n * (forward ? 2 * d.k : d.k + 1), .token = d.rows * d.k};
}

// k rows times their gates; dx and dgate.
Count weighted(Kernel kernel, const Dims& d) {
  if (kernel == Kernel::weight_gradient) return {};
  const bool forward = kernel == Kernel::forward;
  return {.flops = (forward ? 2.0 : 3.0) * static_cast<double>(d.k) * d.size(),
          .activation = d.rows * d.n * (forward ? d.k + 1 : 2 * d.k + 1) +
                        d.rows * d.k * (forward ? 1 : 2),
          .token = d.rows * d.k};
}

// As product, of rows that are all experts' together.
Count expert_product(Kernel kernel, const Dims& d, std::int64_t biases) {
  Count c = product(kernel, {d.rows, d.n, d.k, 1}, false, biases);
  c.weight *= d.groups;
  c.gradient *= d.groups;
  return c;
}

// The product of the windows; what moves are the images, each once.
Count convolve(Kernel kernel, const models::Operator& op, const Dims& d) {
  const std::int64_t samples = d.rows / op.rows;
  const std::int64_t x = op.image.channels * op.image.height * op.image.width * samples;
  Count c = product(kernel, d, false, op.parameters.size() > 1 ? d.n * d.groups : 0);
  c.activation = x + d.rows * d.n * d.groups;
  return c;
}

Count pooling(Kernel kernel, const models::Operator& op, const Dims& d) {
  if (kernel == Kernel::weight_gradient) return {};
  const bool maximum = op.kind == OpKind::max_pool;
  const std::int64_t x = op.image.height * op.image.width * d.rows / op.rows * d.n;
  const bool once = maximum && kernel == Kernel::input_gradient;
  return {.flops = (once ? 1.0 : static_cast<double>(d.k)) * d.size(),
          .activation = x + d.rows * d.n, .mask = maximum ? d.rows * d.n : 0};
}

// Per element and channel of the window: a square and its sum; then scale and add 2, power and
// divide 2. Backward: the sums again, their counterpart over d_y y / d, and five products.
Count response_norm(Kernel kernel, const Dims& d) {
  const auto window = static_cast<double>(d.k);
  return pointwise(kernel,
                   {.flops_forward = 2 * window + 4, .flops_backward = 4 * window + 7,
                    .moved_forward = 2, .moved_backward = 3},
                   d);
}

// As builders count it (models/operators_graph.cpp); the action of d_x reads for all gradients.
Count batch_norm(Kernel kernel, const Dims& d) {
  const std::int64_t e = d.rows * d.n;
  switch (kernel) {
    case Kernel::forward: return {.flops = 8 * d.size(), .activation = 3 * e, .weight = 2 * d.n};
    case Kernel::input_gradient:
      return {.flops = 8 * d.size(), .activation = 5 * e, .weight = d.n};
    case Kernel::weight_gradient: return {.flops = 2 * d.size(), .gradient = 4 * d.n};
  }
  return {};
}

// The same for the two operators of a synchronised one. Of sums, two numbers of f64 count as four
// statistics.
Count sums_of_channels(Kernel kernel, const Dims& d) {
  if (kernel == Kernel::weight_gradient) return {};
  const std::int64_t e = d.rows * d.n;
  return {.flops = 3 * d.size(), .activation = kernel == Kernel::forward ? e : 3 * e,
          .statistic = 4 * d.n};
}
Count norm_of_channels(Kernel kernel, const Dims& d) {
  const std::int64_t e = d.rows * d.n;
  switch (kernel) {
    case Kernel::forward:
      return {.flops = 4 * d.size(), .activation = 2 * e, .statistic = 4 * d.n,
              .weight = 2 * d.n};
    case Kernel::input_gradient:
      return {.flops = 4 * d.size(), .activation = 4 * e, .statistic = 8 * d.n, .weight = d.n};
    case Kernel::weight_gradient: return {.flops = 2 * d.size(), .gradient = 4 * d.n};
  }
  return {};
}

Count count(Kernel kernel, const models::Operator& op, const Dims& d) {
  const models::ops::Work& w = models::ops::schema(op.kind).work;
  switch (w.by) {
    case WorkOf::nothing: return {};
    case WorkOf::lookup: return embedding(kernel, d, false);
    case WorkOf::table_rows: return embedding(kernel, d, true);
    case WorkOf::layer_norm: return norm(kernel, d);
    case WorkOf::rms_norm: return rms(kernel, d.rows, d.n, 1, 0, d.n);
    case WorkOf::head_norm: return head_norm(kernel, op, d);
    case WorkOf::square_sums: return squares(kernel, op, d);
    case WorkOf::width_norm: return width_norm(kernel, op, d);
    case WorkOf::product: return product(kernel, d, false, op.parameters.size() > 1 ? d.n : 0);
    case WorkOf::adapter: return product(kernel, d, true, 0);
    case WorkOf::dense: return dense(kernel, op, d);
    case WorkOf::expert_product:
      return expert_product(kernel, d, op.parameters.size() > 1 ? d.n : 0);
    case WorkOf::convolution: return convolve(kernel, op, d);
    case WorkOf::attention: return attend(kernel, op, d);
    case WorkOf::bias: return bias(kernel, d);
    case WorkOf::routing: return route(kernel, d);
    case WorkOf::dispatching: return copies(kernel, d);
    case WorkOf::combining: return weighted(kernel, d);
    case WorkOf::pool: return pooling(kernel, op, d);
    case WorkOf::response_norm: return response_norm(kernel, d);
    case WorkOf::batch_norm: return batch_norm(kernel, d);
    case WorkOf::channel_sums: return sums_of_channels(kernel, d);
    case WorkOf::channel_norm: return norm_of_channels(kernel, d);
    case WorkOf::pointwise: return pointwise(kernel, w, d);
  }
  return {};
}

}  // namespace

Work work(Kernel kernel, const models::Operator& op, std::int64_t samples,
          const KernelTypes& types) {
  const Dims d{op.rows * samples, op.n, op.k, op.groups};
  const Count c = count(kernel, op, d);
  using core::bytes_of;
  return {core::Flops(c.flops),
          bytes_of(c.activation, types.activation) + bytes_of(c.statistic, types.statistic) +
              bytes_of(c.weight, types.weight) + bytes_of(c.gradient, types.gradient) +
              bytes_of(c.token, core::DType::i32) + bytes_of(c.mask, core::DType::u8)};
}

bool computes(const models::Operator& op) {
  const bool attends = !op.alibi || op.causal;  // linear biases look back alone
  const bool chooses = op.kind != OpKind::max_pool || op.window.kernel.area() <= kLargestMaximum;
  const bool exact = op.activation == models::Activation::gelu_erf;  // not as dense's epilogue
  return attends && chooses && (!exact || op.kind == OpKind::gelu);
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
                                 .keys = op.keys, .value_dim = op.value_dim};
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
