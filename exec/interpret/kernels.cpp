#include "exec/interpret/kernels.hpp"

#include <algorithm>

#include "exec/host/decoder.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/work.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/kernel_parts.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec {

using models::OpKind;
using models::Operator;
using program::ActionKind;

namespace {

using Args = std::span<const Operand>;

// Probabilities, where attention keeps them: bytes of as many activations.
template <class A>
host::View scores_of(const A& a) {
  return a.has("probabilities") ? host::View{a.operand("probabilities").data, a["qkv"].type}
                                : host::View{};
}

// Columns [op.n, 2 op.n) of rows of 2 op.n elements: what checkpoint=selective_op keeps of them.
void keep_half(const Operand& kept, host::View from, std::int64_t rows, std::int64_t n) {
  const host::View to{kept.data, from.type};
  for (std::int64_t r = 0; r < rows; ++r)
    host::copy(to.at(r * n), from.at(r * 2 * n + n), n);
}

// Where half of the product was kept, the operator makes the other half.
void linear(const Operator& op, Args args, std::int64_t rows, host::Workspace ws) {
  const Forward<ops::linear> a(op, args);
  const bool half = a.has("half");
  host::LinearShape shape = linear_shape(op, rows);
  if (half) shape.ldy = 2 * op.n;
  const host::View y = a["y"];
  host::linear(y, a["x"], a["w"], a["b"], shape, false, ws);
  if (!half) return;
  const host::View kept{a["half"].data, y.type};
  for (std::int64_t r = 0; r < rows; ++r)
    host::copy(y.at(r * 2 * op.n + op.n), kept.at(r * op.n), op.n);
}

// One function of each element: from x to y, from d_y and what is kept to d_x.
void unary(const Operator& op, ops::Kernel kernel, Args args, bool accumulate,
           std::int64_t rows) {
  const auto a = [&](std::string_view name) -> const Operand& {
    return args[program::argument(op, kernel, args.size(), name)];
  };
  const std::int64_t n = rows * op.n;
  const host::UnaryForm form{op.activation, op.scale};
  if (kernel == ops::Kernel::input_gradient)
    return host::unary_gradient(view(a("d_x")), view(a("d_y")),
                                view(a(ops::kept_of_unary(op.kind))), n, op.kind, form,
                                accumulate);
  if (args.size() > 2) keep_half(a("half"), view(a("x")), rows, op.n / 2);
  host::unary(view(a("y")), view(a("x")), n, op.kind, form);
}

void loss(const Operator& op, Args args, const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  const double samples = static_cast<double>(c.global_batch);
  if (op.kind == OpKind::squared_error) {
    const Forward<ops::squared_error> a(op, args);
    return host::squared_error(static_cast<double*>(a["loss"].data), a["y"], a["target"],
                               rows * op.n, {1.0 / samples, c.loss_scale});
  }
  const Forward<ops::cross_entropy> a(op, args);
  host::cross_entropy(static_cast<double*>(a["loss"].data), a["logits"], a["max"], a["sums"],
                      a["targets"], logit_shape(op, rows, c), loss_factor(op, c));
}

void forward(const Operator& op, Args args, const KernelContext& c, host::Workspace ws) {
  const std::int64_t rows = op.rows * c.samples, n = rows * op.n;
  switch (op.kind) {
    case OpKind::token_embedding: {
      const Forward<ops::token_embedding> a(op, args);
      return host::token_embedding(a["y"], a["wte"], a["tokens"], rows, op.n,
                                   {c.tensor_rank * op.k, op.k});
    }
    case OpKind::position_embedding: {
      const Forward<ops::position_embedding> a(op, args);
      return each_run(op, c, [&](std::int64_t row, std::int64_t count, std::int64_t position) {
        host::position_embedding(a["y"].at(row * op.n), a["x"].at(row * op.n),
                                 a["wpe"].at(position * op.n), count, op.n, count);
      });
    }
    case OpKind::layer_norm: {
      const Forward<ops::layer_norm> a(op, args);
      return host::layer_norm(a["y"], a["mean"], a["rstd"], a["x"], a["gamma"], a["beta"], rows,
                              op.n, c.norm_epsilon);
    }
    case OpKind::rms_norm: {
      const Forward<ops::rms_norm> a(op, args);
      return host::rms_norm(a["y"], a["rstd"], a["x"], a["gamma"], rows, op.n, c.norm_epsilon,
                            op.gamma_offset);
    }
    case OpKind::qk_norm: {
      const Forward<ops::qk_norm> a(op, args);
      return host::qk_norm(a["y"], a["rstd"], a["qkv"], a["q_gamma"], a["k_gamma"],
                           head_shape(op, rows), c.norm_epsilon, op.gamma_offset);
    }
    case OpKind::rope:
      return host::rotate(Forward<ops::rope>(op, args)["y"], head_shape(op, rows),
                          rotation(op, false, c));
    case OpKind::swiglu:
    case OpKind::geglu:
    case OpKind::clamped_swiglu: {
      const Forward<ops::swiglu> a(op, args);
      if (a.has("half")) keep_half(a.operand("half"), a["x"], rows, op.n);
      return host::gated(a["y"], a["x"], rows, op.n, op.kind);
    }
    case OpKind::linear: return linear(op, args, rows, ws);
    case OpKind::lora_up: {
      const Forward<ops::lora_up> a(op, args);
      return host::lora_up(a["y"], a["u"], a["B"],
                           lora_shape(op, rows, a.operand("y").elements / rows), ws);
    }
    case OpKind::attention: {
      if (op.ring_steps > 0) return ring_forward(op, args, c, ws);
      const Forward<ops::attention> a(op, args);
      return host::attention(a["out"], a["lse"], a["qkv"], attention_shape(op, c), ws, a["keys"],
                             scores_of(a), own_heads(a["sinks"], op, c));
    }
    case OpKind::add: {
      const Forward<ops::add> a(op, args);
      return host::add(a["y"], a["a"], a["b"], n);
    }
    case OpKind::bias_add: {
      const Forward<ops::bias_add> a(op, args);
      return host::bias_add(a["y"], a["x"], a["b"], rows, op.n, op.n);
    }
    case OpKind::dense: {
      const Forward<ops::dense> a(op, args);
      host::linear(a["y"], a["x"], a["w"], a["b"], linear_shape(op, rows), false, ws);
      return host::activate(a["y"], op.activation, n);
    }
    case OpKind::softmax_max: {
      const Forward<ops::softmax_max> a(op, args);
      return host::softmax_max(a["max"], a["logits"], logit_shape(op, rows, c));
    }
    case OpKind::softmax_sum: {
      const Forward<ops::softmax_sum> a(op, args);
      return host::softmax_sum(a["sums"], a["logits"], a["max"], a["targets"],
                               logit_shape(op, rows, c));
    }
    case OpKind::cross_entropy:
    case OpKind::squared_error: return loss(op, args, c);
    default: return graph_forward(op, args, c, ws);
  }
}

void input_gradient(const Operator& op, Args args, bool accumulate, const KernelContext& c,
                    host::Workspace ws) {
  const std::int64_t rows = op.rows * c.samples;
  switch (op.kind) {
    case OpKind::layer_norm: {
      const InputGradient<ops::layer_norm> a(op, args);
      if (a.has("d_gamma"))
        host::layer_norm_weight_gradient(a["d_gamma"], a["d_beta"], a["d_y"], a["x"], a["mean"],
                                         a["rstd"], rows, op.n);
      return host::layer_norm_input_gradient(a["d_x"], a["d_y"], a["x"], a["gamma"], a["mean"],
                                             a["rstd"], rows, op.n, accumulate);
    }
    case OpKind::rms_norm: {
      const InputGradient<ops::rms_norm> a(op, args);
      if (a.has("d_gamma"))
        host::rms_norm_weight_gradient(a["d_gamma"], a["d_y"], a["x"], a["rstd"], rows, op.n);
      return host::rms_norm_input_gradient(a["d_x"], a["d_y"], a["x"], a["gamma"], a["rstd"], rows,
                                           op.n, accumulate, op.gamma_offset);
    }
    case OpKind::qk_norm: {
      const InputGradient<ops::qk_norm> a(op, args);
      const host::HeadShape shape = head_shape(op, rows);
      PLANNER_CHECK(!accumulate, "qk_norm overwrites its input's gradient");
      if (a.has("d_q_gamma"))
        host::qk_norm_weight_gradient(a["d_q_gamma"], a["d_k_gamma"], a["d_y"], a["qkv"],
                                      a["rstd"], shape);
      return host::qk_norm_input_gradient(a["d_qkv"], a["d_y"], a["qkv"], a["q_gamma"],
                                          a["k_gamma"], a["rstd"], shape, op.gamma_offset);
    }
    case OpKind::rope:
      return host::rotate(InputGradient<ops::rope>(op, args)["d_y"], head_shape(op, rows),
                          rotation(op, true, c));
    case OpKind::swiglu:
    case OpKind::geglu:
    case OpKind::clamped_swiglu: {
      const InputGradient<ops::swiglu> a(op, args);
      PLANNER_CHECK(!accumulate, "a gate overwrites its input's gradient");
      return host::gated_gradient(a["d_x"], a["d_y"], a["x"], rows, op.n, op.kind);
    }
    case OpKind::linear: {
      const InputGradient<ops::linear> a(op, args);
      return host::linear_input_gradient(a["d_x"], a["d_y"], a["w"], linear_shape(op, rows),
                                         accumulate, ws);
    }
    case OpKind::dense: {
      const InputGradient<ops::dense> a(op, args);
      return host::linear_input_gradient(a["d_x"], a["d_y"], a["w"], linear_shape(op, rows),
                                         accumulate, ws);
    }
    case OpKind::lora_up: {
      const InputGradient<ops::lora_up> a(op, args);
      const host::LoraShape shape =
          lora_shape(op, rows, a.operand("d_y").elements / rows);
      host::lora_up_weight_gradient(a["d_B"], a["d_y"], a["u"], shape, ws);
      return host::lora_up_input_gradient(a["d_u"], a["d_y"], a["B"], shape, ws);
    }
    case OpKind::attention: {
      if (op.ring_steps > 0) return ring_input_gradient(op, args, c, ws);
      const InputGradient<ops::attention> a(op, args);
      if (a.has("d_sinks"))
        host::attention_sink_gradient(own_heads(a["d_sinks"], op, c), a["d_out"], a["out"],
                                      a["lse"], own_heads(a["sinks"], op, c),
                                      attention_shape(op, c));
      return host::attention_input_gradient(a["d_qkv"], a["d_out"], a["qkv"], a["out"], a["lse"],
                                            attention_shape(op, c), ws, a["keys"], scores_of(a));
    }
    default: return graph_input_gradient(op, args, accumulate, c, ws);
  }
}

void weight_gradient(const Operator& op, Args args, const KernelContext& c, host::Workspace ws) {
  const std::int64_t rows = op.rows * c.samples;
  switch (op.kind) {
    case OpKind::token_embedding: {
      const WeightGradient<ops::token_embedding> a(op, args);
      return host::token_embedding_weight_gradient(a["d_wte"], a["d_y"], a["tokens"], rows, op.n,
                                                   {c.tensor_rank * op.k, op.k});
    }
    case OpKind::position_embedding: {
      const WeightGradient<ops::position_embedding> a(op, args);
      return each_run(op, c, [&](std::int64_t row, std::int64_t count, std::int64_t position) {
        host::position_embedding_weight_gradient(
            a["d_wpe"].at(position * op.n), a["d_y"].at(row * op.n), count, op.n, count);
      });
    }
    case OpKind::linear: {
      const WeightGradient<ops::linear> a(op, args);
      host::linear_weight_gradient(a["d_w"], a["d_y"], a["x"], linear_shape(op, rows), ws);
      if (a.has("d_b"))
        host::bias_gradient(a["d_b"], a.has("summed") ? a["summed"] : a["d_y"], rows, op.n, op.n);
      return;
    }
    case OpKind::dense: {
      const WeightGradient<ops::dense> a(op, args);
      host::activate_gradient(a["d_y"], a["y"], op.activation, rows * op.n);
      host::linear_weight_gradient(a["d_w"], a["d_y"], a["x"], linear_shape(op, rows), ws);
      return host::bias_gradient(a["d_b"], a["d_y"], rows, op.n, op.n);
    }
    case OpKind::bias_add: {
      const WeightGradient<ops::bias_add> a(op, args);
      return host::bias_gradient(a["d_b"], a["d_y"], rows, op.n, op.n);
    }
    default: return graph_weight_gradient(op, args, c, ws);
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
  if (ops::is_unary(op.kind))
    return unary(op, program::kernel_of(action.kind), args, accumulate, op.rows * context.samples);
  switch (action.kind) {
    case ActionKind::forward: return forward(op, args, context, workspace);
    case ActionKind::input_gradient:
      return input_gradient(op, args, accumulate, context, workspace);
    case ActionKind::weight_gradient: return weight_gradient(op, args, context, workspace);
    default: PLANNER_CHECK(false, "not a kernel");
  }
}

}  // namespace exec
