#include "exec/interpret/kernels.hpp"

#include <algorithm>

#include "exec/host/experts.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/work.hpp"
#include "exec/interpret/kernel_parts.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec {

using models::OpKind;
using models::Operator;
using program::ActionKind;

namespace {

using Args = std::span<const Operand>;

host::RoutingShape routing_shape(const Operator& op, const KernelContext& c) {
  return {c.samples, op.rows, op.n, op.k};
}

host::ExpertShape expert_shape(const Operator& op, const KernelContext& c) {
  return {c.samples, op.rows, op.n, op.k, op.groups, op.origins};
}

// Keys and values of all ranks, where these divide the sequence.
host::View keys_of(const Operator& op, Args a) {
  return op.keys == op.rows ? host::View{} : view(a.back());
}
// Probabilities, where attention keeps them: bytes of as many activations.
host::View scores_of(const Operator& op, Args a, std::size_t at) {
  return op.outputs.size() > 2 ? host::View{a[at].data, a[0].type} : host::View{};
}

// Columns [op.n, 2 op.n) of rows of 2 op.n elements: what checkpoint=selective_op keeps of them.
void keep_half(const Operand& kept, host::View from, std::int64_t rows, std::int64_t n) {
  const host::View to{kept.data, from.type};
  for (std::int64_t r = 0; r < rows; ++r)
    host::copy(to.at(r * n), from.at(r * 2 * n + n), n);
}

// Where half of the product was kept, the operator makes the other half.
void linear(const Operator& op, Args a, std::int64_t rows, host::Workspace ws) {
  const bool bias = op.parameters.size() > 1;
  const std::size_t out = bias ? 3 : 2;
  const bool half = a.size() > out + 1;
  host::LinearShape shape = linear_shape(op, rows);
  if (half) shape.ldy = 2 * op.n;
  const host::View y = view(a[out]);
  host::linear(y, view(a[0]), view(a[1]), bias ? view(a[2]) : host::View{}, shape, false, ws);
  const host::View kept{a.back().data, y.type};
  for (std::int64_t r = 0; r < rows && half; ++r)
    host::copy(y.at(r * 2 * op.n + op.n), kept.at(r * op.n), op.n);
}

void turn(host::View qkv, const Operator& op, bool inverse, const KernelContext& c) {
  each_run(op, c, [&](std::int64_t row, std::int64_t count, std::int64_t position) {
    const host::HeadShape shape = head_shape(op, count);
    host::rotate(qkv.at(row * shape.columns()), shape, rotation(op, inverse, position));
  });
}

void forward(const Operator& op, Args a, const KernelContext& c, host::Workspace ws) {
  const std::int64_t rows = op.rows * c.samples, n = rows * op.n;
  const auto v = [&](std::size_t i) { return i < a.size() ? view(a[i]) : host::View{}; };
  switch (op.kind) {
    case OpKind::token_embedding:
      return host::token_embedding(v(2), v(1), v(0), rows, op.n, {c.tensor_rank * op.k, op.k});
    case OpKind::position_embedding:
      return each_run(op, c, [&](std::int64_t row, std::int64_t count, std::int64_t position) {
        host::position_embedding(v(2).at(row * op.n), v(0).at(row * op.n), v(1).at(position * op.n),
                                 count, op.n, count);
      });
    case OpKind::layer_norm: {  // x, gamma, [beta], y, mean, rstd
      const std::size_t y = op.inputs.size() + op.parameters.size();
      return host::layer_norm(v(y), v(y + 1), v(y + 2), v(0), v(1), y > 2 ? v(2) : host::View{},
                              rows, op.n, c.norm_epsilon);
    }
    case OpKind::rms_norm:
      return host::rms_norm(v(2), v(3), v(0), v(1), rows, op.n, c.norm_epsilon);
    case OpKind::qk_norm:
      return host::qk_norm(v(3), v(4), v(0), v(1), v(2), head_shape(op, rows), c.norm_epsilon);
    case OpKind::rope:  // qkv, in place
      return turn(v(1), op, false, c);
    case OpKind::swiglu:
      if (a.size() > 2) keep_half(a[2], v(0), rows, op.n);
      return host::swiglu(v(1), v(0), rows, op.n);
    case OpKind::relu:
      return host::relu(v(1), v(0), n);
    case OpKind::linear:
      return linear(op, a, rows, ws);
    case OpKind::lora_up:  // base, u, B, y (in place of base)
      return host::lora_up(v(3), v(1), v(2), lora_shape(op, rows, a[3].elements / rows), ws);
    case OpKind::attention:
      if (op.ring_steps > 0) return ring_forward(op, a, c, ws);
      return host::attention(v(1), v(2), v(0), attention_shape(op, c), ws, keys_of(op, a),
                             scores_of(op, a, 3));
    case OpKind::gelu:
      if (a.size() > 2) keep_half(a[2], v(0), rows, op.n / 2);
      return host::gelu(v(1), v(0), n, op.activation);
    case OpKind::add:
      return host::add(v(2), v(0), v(1), n);
    case OpKind::bias_add:
      return host::bias_add(v(2), v(0), v(1), rows, op.n, op.n);
    case OpKind::dense:
      host::linear(v(3), v(0), v(1), v(2), linear_shape(op, rows), false, ws);
      return host::activate(v(3), op.activation, n);
    case OpKind::softmax_max:
      return host::softmax_max(v(1), v(0), logit_shape(op, rows, c));
    case OpKind::softmax_sum:
      return host::softmax_sum(v(3), v(0), v(1), v(2), logit_shape(op, rows, c));
    case OpKind::cross_entropy:
      return host::cross_entropy(static_cast<double*>(a[4].data), v(0), v(1), v(2), v(3),
                                 logit_shape(op, rows, c),
                                 1.0 / static_cast<double>(c.global_batch * op.rows * op.parts *
                                                           c.slice.ranks));
    case OpKind::squared_error:
      return host::squared_error(static_cast<double*>(a[2].data), v(0), v(1), n,
                                 1.0 / static_cast<double>(c.global_batch));
    case OpKind::top_k:
      return host::top_k(v(1), v(2), v(0), routing_shape(op, c), ws);
    case OpKind::dispatch:
      return host::dispatch(v(2), v(0), v(1), {rows, op.n, op.k});
    case OpKind::expert_linear:
      return host::expert_linear(v(2), v(0), v(1), expert_shape(op, c), ws);
    case OpKind::combine:
      return host::combine(v(3), v(0), v(1), v(2), {rows, op.n, op.k});
    default: return graph_forward(op, a, c, ws);
  }
}

void input_gradient(const Operator& op, Args a, bool accumulate, const KernelContext& c,
                    host::Workspace ws) {
  const std::int64_t rows = op.rows * c.samples;
  const auto v = [&](std::size_t i) { return view(a[i]); };
  switch (op.kind) {
    case OpKind::layer_norm:  // dy, x, mean, rstd, gamma, dx, [d_gamma, [d_beta]]
      if (a.size() > 6)
        host::layer_norm_weight_gradient(v(6), a.size() > 7 ? v(7) : host::View{}, v(0), v(1),
                                         v(2), v(3), rows, op.n);
      return host::layer_norm_input_gradient(v(5), v(0), v(1), v(4), v(2), v(3), rows, op.n,
                                             accumulate);
    case OpKind::rms_norm:  // dy, x, rstd, gamma, dx, [d_gamma]
      if (a.size() > 5) host::rms_norm_weight_gradient(v(5), v(0), v(1), v(2), rows, op.n);
      return host::rms_norm_input_gradient(v(4), v(0), v(1), v(3), v(2), rows, op.n, accumulate);
    case OpKind::qk_norm: {  // dy, qkv, rstd, q_gamma, k_gamma, dqkv, [dq_gamma, dk_gamma]
      const host::HeadShape shape = head_shape(op, rows);
      PLANNER_CHECK(!accumulate, "qk_norm overwrites its input's gradient");
      if (a.size() > 6) host::qk_norm_weight_gradient(v(6), v(7), v(0), v(1), v(2), shape);
      return host::qk_norm_input_gradient(v(5), v(0), v(1), v(3), v(4), v(2), shape);
    }
    case OpKind::rope:
      return turn(v(0), op, true, c);
    case OpKind::swiglu:
      PLANNER_CHECK(!accumulate, "swiglu overwrites its input's gradient");
      return host::swiglu_gradient(v(a.size() - 1), v(0), v(1), rows, op.n);
    case OpKind::relu:
      return host::relu_gradient(v(2), v(0), v(1), rows * op.n, accumulate);
    case OpKind::linear:
    case OpKind::dense:
      return host::linear_input_gradient(v(2), v(0), v(1), linear_shape(op, rows), accumulate, ws);
    case OpKind::lora_up: {  // dy, u, B, du, dB
      const host::LoraShape shape = lora_shape(op, rows, a[0].elements / rows);
      host::lora_up_weight_gradient(v(4), v(0), v(1), shape, ws);
      return host::lora_up_input_gradient(v(3), v(0), v(2), shape, ws);
    }
    case OpKind::top_k:  // dgates, gates, places, dlogits
      PLANNER_CHECK(!accumulate, "top_k overwrites its input's gradient");
      return host::top_k_gradient(v(3), v(0), v(1), v(2), routing_shape(op, c));
    case OpKind::dispatch:  // dy, places, dx
      return host::dispatch_gradient(v(2), v(0), v(1), {rows, op.n, op.k}, accumulate);
    case OpKind::expert_linear:  // dy, w, dx
      return host::expert_linear_input_gradient(v(2), v(0), v(1), expert_shape(op, c), accumulate,
                                                ws);
    case OpKind::combine:  // dy, x, gates, places, dx, dgates
      PLANNER_CHECK(!accumulate, "combine overwrites its inputs' gradients");
      return host::combine_gradient(v(4), v(5), v(0), v(1), v(2), v(3), {rows, op.n, op.k});
    case OpKind::attention:
      if (op.ring_steps > 0) return ring_input_gradient(op, a, c, ws);
      return host::attention_input_gradient(v(2 + op.outputs.size()), v(0), v(1), v(2), v(3),
                                            attention_shape(op, c), ws, keys_of(op, a),
                                            scores_of(op, a, 4));
    case OpKind::gelu:
      return host::gelu_gradient(v(2), v(0), v(1), rows * op.n, op.activation, accumulate);
    default: return graph_input_gradient(op, a, accumulate, c, ws);
  }
}

void weight_gradient(const Operator& op, Args a, const KernelContext& c, host::Workspace ws) {
  const std::int64_t rows = op.rows * c.samples;
  const auto v = [&](std::size_t i) { return view(a[i]); };
  switch (op.kind) {
    case OpKind::token_embedding:
      return host::token_embedding_weight_gradient(v(2), v(0), v(1), rows, op.n,
                                                   {c.tensor_rank * op.k, op.k});
    case OpKind::position_embedding:
      return each_run(op, c, [&](std::int64_t row, std::int64_t count, std::int64_t position) {
        host::position_embedding_weight_gradient(v(1).at(position * op.n), v(0).at(row * op.n),
                                                 count, op.n, count);
      });
    case OpKind::linear:  // dy, x, d_w, [d_b]
      host::linear_weight_gradient(v(2), v(0), v(1), linear_shape(op, rows), ws);
      if (a.size() > 3) host::bias_gradient(v(3), v(0), rows, op.n, op.n);
      return;
    case OpKind::dense:  // dy, y, x, d_w, d_b
      host::activate_gradient(v(0), v(1), op.activation, rows * op.n);
      host::linear_weight_gradient(v(3), v(0), v(2), linear_shape(op, rows), ws);
      return host::bias_gradient(v(4), v(0), rows, op.n, op.n);
    case OpKind::expert_linear:  // dy, x, d_w
      return host::expert_linear_weight_gradient(v(2), v(0), v(1), expert_shape(op, c), ws);
    case OpKind::bias_add:
      return host::bias_gradient(v(1), v(0), rows, op.n, op.n);
    default: return graph_weight_gradient(op, a, c, ws);
  }
}

}  // namespace

core::Bytes workspace_bytes(const program::RankClass& rank_class, std::int64_t samples) {
  core::Bytes most{0};
  // Any mix of types: what f64 arithmetic needs is the most.
  const host::KernelTypes types{core::DType::f64, core::DType::f64, core::DType::f64,
                                core::DType::f64};
  for (const Operator& op : rank_class.operators)
    most = std::max(most, host::workspace_bytes(op, samples, types));
  return most;
}

void run_kernel(const program::Action& action, const Operator& op, Args args,
                const KernelContext& context, host::Workspace workspace) {
  const bool accumulate = (action.flags & program::kAccumulate) != 0;
  switch (action.kind) {
    case ActionKind::forward: return forward(op, args, context, workspace);
    case ActionKind::input_gradient:
      return input_gradient(op, args, accumulate, context, workspace);
    case ActionKind::weight_gradient: return weight_gradient(op, args, context, workspace);
    default: PLANNER_CHECK(false, "not a kernel");
  }
}

}  // namespace exec
