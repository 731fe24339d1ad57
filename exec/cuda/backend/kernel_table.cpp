#include "exec/cuda/backend/kernel_table.hpp"

#include "exec/interpret/operator_shapes.hpp"

namespace exec::cuda {

using models::OpKind;
using models::Operator;
using program::ActionKind;

namespace {

using Args = std::span<const Operand>;

void forward(const Queue& q, const Operator& op, Args a, const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples, n = rows * op.n;
  const auto v = [&](std::size_t i) { return view(a[i]); };
  switch (op.kind) {
    case OpKind::token_embedding:
      return token_embedding(q, v(2), v(1), v(0), rows, op.n, {c.tensor_rank * op.k, op.k});
    case OpKind::position_embedding:
      return position_embedding(q, v(2), v(0), v(1).at(first_row(op, c) * op.n), rows, op.n,
                                op.rows);
    case OpKind::layer_norm:
      return layer_norm(q, v(3), v(4), v(5), v(0), v(1), v(2), rows, op.n, c.norm_epsilon);
    case OpKind::rms_norm:
      return rms_norm(q, v(2), v(3), v(0), v(1), rows, op.n, c.norm_epsilon);
    case OpKind::qk_norm:
      return qk_norm(q, v(3), v(4), v(0), v(1), v(2), head_shape(op, rows), c.norm_epsilon);
    case OpKind::rope: return rotate(q, v(1), head_shape(op, rows), rotation(op, false));
    case OpKind::swiglu: return swiglu(q, v(1), v(0), rows, op.n);
    case OpKind::relu: return relu(q, v(1), v(0), n);
    case OpKind::linear: {
      const bool bias = op.parameters.size() > 1;
      return linear(q, v(bias ? 3 : 2), v(0), v(1), bias ? v(2) : View{}, linear_shape(op, rows),
                    false);
    }
    case OpKind::lora_up:
      return lora_up(q, v(3), v(1), v(2), lora_shape(op, rows, a[3].elements / rows));
    case OpKind::attention: return attention(q, v(1), v(2), v(0), attention_shape(op, c));
    case OpKind::gelu: return gelu(q, v(1), v(0), n, op.activation);
    case OpKind::add: return add(q, v(2), v(0), v(1), n);
    case OpKind::bias_add: return bias_add(q, v(2), v(0), v(1), rows, op.n);
    case OpKind::dense:
      linear(q, v(3), v(0), v(1), v(2), linear_shape(op, rows), false);
      return activate(q, v(3), op.activation, n);
    case OpKind::softmax_max: return softmax_max(q, v(1), v(0), logit_shape(op, rows, c));
    case OpKind::softmax_sum:
      return softmax_sum(q, v(3), v(0), v(1), v(2), logit_shape(op, rows, c));
    case OpKind::cross_entropy:
      return cross_entropy(q, static_cast<double*>(a[4].data), v(0), v(1), v(2), v(3),
                           logit_shape(op, rows, c),
                           1.0 / static_cast<double>(c.global_batch * op.rows * op.parts));
    case OpKind::squared_error:
      return squared_error(q, static_cast<double*>(a[2].data), v(0), v(1), n,
                           1.0 / static_cast<double>(c.global_batch));
    default:
      PLANNER_CHECK(false, "operator without a kernel: " + op.name);  // the platform refused it
  }
}

// Norms: dy, what was saved..., gamma, dx, [gradients of parameters].
void norm_gradient(const Queue& q, const Operator& op, Args a, bool accumulate,
                   const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  const auto v = [&](std::size_t i) { return view(a[i]); };
  if (op.kind == OpKind::layer_norm) {
    if (a.size() > 6)
      layer_norm_weight_gradient(q, v(6), v(7), v(0), v(1), v(2), v(3), rows, op.n);
    return layer_norm_input_gradient(q, v(5), v(0), v(1), v(4), v(2), v(3), rows, op.n, accumulate);
  }
  if (op.kind == OpKind::rms_norm) {
    if (a.size() > 5) rms_norm_weight_gradient(q, v(5), v(0), v(1), v(2), rows, op.n);
    return rms_norm_input_gradient(q, v(4), v(0), v(1), v(3), v(2), rows, op.n, accumulate);
  }
  const host::HeadShape shape = head_shape(op, rows);
  PLANNER_CHECK(!accumulate, "qk_norm overwrites its input's gradient");
  if (a.size() > 6) qk_norm_weight_gradient(q, v(6), v(7), v(0), v(1), v(2), shape);
  qk_norm_input_gradient(q, v(5), v(0), v(1), v(3), v(4), v(2), shape);
}

void input_gradient(const Queue& q, const Operator& op, Args a, bool accumulate,
                    const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  const auto v = [&](std::size_t i) { return view(a[i]); };
  switch (op.kind) {
    case OpKind::layer_norm:
    case OpKind::rms_norm:
    case OpKind::qk_norm: return norm_gradient(q, op, a, accumulate, c);
    case OpKind::rope: return rotate(q, v(0), head_shape(op, rows), rotation(op, true));
    case OpKind::swiglu:
      PLANNER_CHECK(!accumulate, "swiglu overwrites its input's gradient");
      return swiglu_gradient(q, v(2), v(0), v(1), rows, op.n);
    case OpKind::relu:
      PLANNER_CHECK(!accumulate, "relu overwrites its input's gradient");
      return relu_gradient(q, v(2), v(0), v(1), rows * op.n);
    case OpKind::linear:
    case OpKind::dense:
      return linear_input_gradient(q, v(2), v(0), v(1), linear_shape(op, rows), accumulate);
    case OpKind::lora_up: {
      const host::LoraShape shape = lora_shape(op, rows, a[0].elements / rows);
      lora_up_weight_gradient(q, v(4), v(0), v(1), shape);
      return lora_up_input_gradient(q, v(3), v(0), v(2), shape);
    }
    case OpKind::attention:
      return attention_input_gradient(q, v(4), v(0), v(1), v(2), v(3),
                                      attention_shape(op, c));
    case OpKind::gelu:
      PLANNER_CHECK(!accumulate, "gelu overwrites its input's gradient");
      return gelu_gradient(q, v(2), v(0), v(1), rows * op.n, op.activation);
    default: PLANNER_CHECK(false, "operator without an input gradient: " + op.name);
  }
}

void weight_gradient(const Queue& q, const Operator& op, Args a, const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  const auto v = [&](std::size_t i) { return view(a[i]); };
  switch (op.kind) {
    case OpKind::token_embedding:
      return token_embedding_weight_gradient(q, v(2), v(0), v(1), rows, op.n,
                                             {c.tensor_rank * op.k, op.k});
    case OpKind::position_embedding:
      return position_embedding_weight_gradient(q, v(1).at(first_row(op, c) * op.n), v(0), rows,
                                                op.n, op.rows);
    case OpKind::linear:  // dy, x, d_w, [d_b]
      linear_weight_gradient(q, v(2), v(0), v(1), linear_shape(op, rows));
      if (a.size() > 3) bias_gradient(q, v(3), v(0), rows, op.n);
      return;
    case OpKind::dense:  // dy, y, x, d_w, d_b
      activate_gradient(q, v(0), v(1), op.activation, rows * op.n);
      linear_weight_gradient(q, v(3), v(0), v(2), linear_shape(op, rows));
      return bias_gradient(q, v(4), v(0), rows, op.n);
    case OpKind::bias_add: return bias_gradient(q, v(1), v(0), rows, op.n);
    default: PLANNER_CHECK(false, "operator without a weight gradient: " + op.name);
  }
}

}  // namespace

void launch_action(const Queue& queue, const program::Action& action, const Operator& op, Args args,
                   const KernelContext& context) {
  const bool accumulate = (action.flags & program::kAccumulate) != 0;
  switch (action.kind) {
    case ActionKind::forward: return forward(queue, op, args, context);
    case ActionKind::input_gradient: return input_gradient(queue, op, args, accumulate, context);
    case ActionKind::weight_gradient: return weight_gradient(queue, op, args, context);
    default: PLANNER_CHECK(false, "not a kernel");
  }
}

}  // namespace exec::cuda
