#include "exec/cuda/backend/kernel_table.hpp"

#include "exec/cuda/backend/context_table.hpp"
#include "exec/cuda/backend/decoder_table.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/operator_shapes.hpp"
#include "sim/cost/launches.hpp"

namespace exec::cuda {

using models::OpKind;
using models::Operator;
using program::ActionKind;

namespace {

using Args = std::span<const Operand>;

// checkpoint=selective_op keeps columns [n, 2 n) of rows of 2 n elements in memory of their own.
// This copies them there (keeps) or back. The driver copies rows, without a kernel.
void copy_half(const Queue& q, const Operand& half, View rows_of_both, std::int64_t rows,
               std::int64_t n, bool keeps) {
  const auto width = static_cast<std::size_t>(core::bytes_of(n, rows_of_both.type).value());
  auto* const kept = static_cast<std::byte*>(half.data);
  auto* const latter = static_cast<std::byte*>(rows_of_both.at(n).data);
  const auto count = static_cast<std::size_t>(rows);
  if (keeps) q.api.copy({kept, latter, width, 2 * width, width, count}, q.stream);
  else q.api.copy({latter, kept, 2 * width, width, width, count}, q.stream);
}

// With checkpoint=selective_op half of a product's columns may have been kept. Then the operator
// computes the other half alone.
void product(const Queue& q, const Operator& op, Args args, std::int64_t rows) {
  const Forward<ops::linear> a(op, args);
  host::LinearShape shape = linear_shape(op, rows);
  const bool half = a.has("half");
  if (half) shape.ldy = 2 * op.n;
  linear(q, a["y"], a["x"], a["w"], a["b"], shape, false);
  if (half) copy_half(q, a.operand("half"), a["y"], rows, op.n, false);
}

void unary(const Queue& q, const Operator& op, ops::Kernel kernel, Args args, bool accumulate,
           std::int64_t rows) {
  const auto a = [&](std::string_view name) {
    return view(args[program::argument(op, kernel, args.size(), name)]);
  };
  const std::int64_t n = rows * op.n;
  const host::UnaryForm form{op.activation, op.scale};
  if (kernel == ops::Kernel::forward) {
    if (args.size() > 2)
      copy_half(q, args[program::argument(op, kernel, args.size(), "half")], a("x"), rows,
                op.n / 2, true);
    return unary(q, a("y"), a("x"), n, op.kind, form);
  }
  PLANNER_CHECK(!accumulate, op.name + " overwrites its input's gradient");
  unary_gradient(q, a("d_x"), a("d_y"), a(ops::kept_of_unary(op.kind)), n, op.kind, form);
}

void forward(const Queue& q, const Operator& op, Args args, const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples, n = rows * op.n;
  switch (op.kind) {
    case OpKind::token_embedding: {
      const Forward<ops::token_embedding> a(op, args);
      return token_embedding(q, a["y"], a["wte"], a["tokens"], rows, op.n,
                             {c.tensor_rank * op.k, op.k});
    }
    case OpKind::position_embedding: {
      const Forward<ops::position_embedding> a(op, args);
      const auto [of_sample, places] = sample_rows(op, c);
      return position_embedding(q, a["y"], a["x"], a["wpe"], rows, op.n, of_sample, places);
    }
    case OpKind::layer_norm: {
      const Forward<ops::layer_norm> a(op, args);
      return layer_norm(q, a["y"], a["mean"], a["rstd"], a["x"], a["gamma"], a["beta"], rows, op.n,
                        c.norm_epsilon);
    }
    case OpKind::rms_norm: {
      const Forward<ops::rms_norm> a(op, args);
      return rms_norm(q, a["y"], a["rstd"], a["x"], a["gamma"], rows, op.n, c.norm_epsilon,
                      op.gamma_offset);
    }
    case OpKind::qk_norm: {
      const Forward<ops::qk_norm> a(op, args);
      return qk_norm(q, a["y"], a["rstd"], a["qkv"], a["q_gamma"], a["k_gamma"],
                     head_shape(op, rows), c.norm_epsilon, op.gamma_offset);
    }
    case OpKind::rope:
      return rotate(q, Forward<ops::rope>(op, args)["y"], head_shape(op, rows),
                    rotation(op, false, c));
    case OpKind::swiglu:
    case OpKind::geglu:
    case OpKind::clamped_swiglu: {
      const Forward<ops::swiglu> a(op, args);  // all gates have its arguments
      if (a.has("half")) copy_half(q, a.operand("half"), a["x"], rows, op.n, true);
      return gated(q, a["y"], a["x"], rows, op.n, op.kind);
    }
    case OpKind::linear:
      return product(q, op, args, rows);
    case OpKind::lora_up: {
      const Forward<ops::lora_up> a(op, args);
      return lora_up(q, a["y"], a["u"], a["B"],
                     lora_shape(op, rows, a.operand("y").elements / rows));
    }
    case OpKind::attention: {
      if (cost::meets_other_ranks(op)) return context_forward(q, op, args, c);
      const Forward<ops::attention> a(op, args);
      return attention(q, a["out"], a["lse"], a["qkv"], attention_shape(op, c),
                       own_heads(a["sinks"], op, c));
    }
    case OpKind::add: {
      const Forward<ops::add> a(op, args);
      return add(q, a["y"], a["a"], a["b"], n);
    }
    case OpKind::bias_add: {
      const Forward<ops::bias_add> a(op, args);
      return bias_add(q, a["y"], a["x"], a["b"], rows, op.n);
    }
    case OpKind::dense: {
      const Forward<ops::dense> a(op, args);
      linear(q, a["y"], a["x"], a["w"], a["b"], linear_shape(op, rows), false);
      return activate(q, a["y"], op.activation, n);
    }
    case OpKind::softmax_max: {
      const Forward<ops::softmax_max> a(op, args);
      return softmax_max(q, a["max"], a["logits"], logit_shape(op, rows, c));
    }
    case OpKind::softmax_sum: {
      const Forward<ops::softmax_sum> a(op, args);
      return softmax_sum(q, a["sums"], a["logits"], a["max"], a["targets"],
                         logit_shape(op, rows, c));
    }
    case OpKind::cross_entropy: {
      const Forward<ops::cross_entropy> a(op, args);
      return cross_entropy(q, static_cast<double*>(a["loss"].data), a["logits"], a["max"],
                           a["sums"], a["targets"], logit_shape(op, rows, c), loss_factor(op, c));
    }
    case OpKind::squared_error: {
      const Forward<ops::squared_error> a(op, args);
      return squared_error(q, static_cast<double*>(a["loss"].data), a["y"], a["target"], n,
                           {1.0 / static_cast<double>(c.global_batch), c.loss_scale});
    }
    default: return decoder_forward(q, op, args, c);
  }
}

void input_gradient(const Queue& q, const Operator& op, Args args, bool accumulate,
                    const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  switch (op.kind) {
    case OpKind::layer_norm: {
      const InputGradient<ops::layer_norm> a(op, args);
      return layer_norm_gradients(q, a["d_x"], a.has("d_gamma") ? a["d_gamma"] : View{},
                                  a.has("d_beta") ? a["d_beta"] : View{}, a["d_y"], a["x"],
                                  a["gamma"], a["mean"], a["rstd"], rows, op.n, accumulate);
    }
    case OpKind::rms_norm: {
      const InputGradient<ops::rms_norm> a(op, args);
      return rms_norm_gradients(q, a["d_x"], a.has("d_gamma") ? a["d_gamma"] : View{}, a["d_y"],
                                a["x"], a["gamma"], a["rstd"], rows, op.n, accumulate,
                                op.gamma_offset);
    }
    case OpKind::qk_norm: {
      const InputGradient<ops::qk_norm> a(op, args);
      const host::HeadShape shape = head_shape(op, rows);
      PLANNER_CHECK(!accumulate, "qk_norm overwrites its input's gradient");
      if (a.has("d_q_gamma"))
        qk_norm_weight_gradient(q, a["d_q_gamma"], a["d_k_gamma"], a["d_y"], a["qkv"], a["rstd"],
                                shape);
      return qk_norm_input_gradient(q, a["d_qkv"], a["d_y"], a["qkv"], a["q_gamma"], a["k_gamma"],
                                    a["rstd"], shape, op.gamma_offset);
    }
    case OpKind::rope:
      return rotate(q, InputGradient<ops::rope>(op, args)["d_y"], head_shape(op, rows),
                    rotation(op, true, c));
    case OpKind::swiglu:
    case OpKind::geglu:
    case OpKind::clamped_swiglu: {
      const InputGradient<ops::swiglu> a(op, args);
      PLANNER_CHECK(!accumulate, op.name + " overwrites its input's gradient");
      return gated_gradient(q, a["d_x"], a["d_y"], a["x"], rows, op.n, op.kind);
    }
    case OpKind::linear: {
      const InputGradient<ops::linear> a(op, args);
      return linear_input_gradient(q, a["d_x"], a["d_y"], a["w"], linear_shape(op, rows),
                                   accumulate);
    }
    case OpKind::dense: {
      const InputGradient<ops::dense> a(op, args);
      return linear_input_gradient(q, a["d_x"], a["d_y"], a["w"], linear_shape(op, rows),
                                   accumulate);
    }
    case OpKind::lora_up: {
      const InputGradient<ops::lora_up> a(op, args);
      const host::LoraShape shape = lora_shape(op, rows, a.operand("d_y").elements / rows);
      lora_up_weight_gradient(q, a["d_B"], a["d_y"], a["u"], shape);
      return lora_up_input_gradient(q, a["d_u"], a["d_y"], a["B"], shape);
    }
    case OpKind::attention: {
      if (cost::meets_other_ranks(op)) return context_input_gradient(q, op, args, c);
      const InputGradient<ops::attention> a(op, args);
      sink_gradient(q, op, args, c);
      return attention_input_gradient(q, a["d_qkv"], a["d_out"], a["qkv"], a["out"], a["lse"],
                                      attention_shape(op, c));
    }
    default: return decoder_input_gradient(q, op, args, accumulate, c);
  }
}

void weight_gradient(const Queue& q, const Operator& op, Args args, const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  switch (op.kind) {
    case OpKind::token_embedding: {
      const WeightGradient<ops::token_embedding> a(op, args);
      return token_embedding_weight_gradient(q, a["d_wte"], a["d_y"], a["tokens"], rows, op.n,
                                             {c.tensor_rank * op.k, op.k});
    }
    case OpKind::position_embedding: {
      const WeightGradient<ops::position_embedding> a(op, args);
      const auto [of_sample, places] = sample_rows(op, c);
      return position_embedding_weight_gradient(q, a["d_wpe"], a["d_y"], rows, op.n, of_sample,
                                                places);
    }
    case OpKind::linear: {
      const WeightGradient<ops::linear> a(op, args);
      linear_weight_gradient(q, a["d_w"], a["d_y"], a["x"], linear_shape(op, rows));
      if (a.has("d_b"))
        bias_gradient(q, a["d_b"], a.has("summed") ? a["summed"] : a["d_y"], rows, op.n);
      return;
    }
    case OpKind::dense: {
      const WeightGradient<ops::dense> a(op, args);
      activate_gradient(q, a["d_y"], a["y"], op.activation, rows * op.n);
      linear_weight_gradient(q, a["d_w"], a["d_y"], a["x"], linear_shape(op, rows));
      return bias_gradient(q, a["d_b"], a["d_y"], rows, op.n);
    }
    case OpKind::bias_add: {
      const WeightGradient<ops::bias_add> a(op, args);
      return bias_gradient(q, a["d_b"], a["d_y"], rows, op.n);
    }
    default: return decoder_weight_gradient(q, op, args, c);
  }
}

}  // namespace

void sink_gradient(const Queue& q, const Operator& op, Args args, const KernelContext& c) {
  const InputGradient<ops::attention> a(op, args);
  if (!a.has("d_sinks")) return;
  attention_sink_gradient(q, own_heads(a["d_sinks"], op, c), a["d_out"], a["out"], a["lse"],
                          own_heads(a["sinks"], op, c), attention_shape(op, c));
}

void launch_action(const Queue& queue, const program::Action& action, const Operator& op, Args args,
                   const KernelContext& context) {
  const bool accumulate = (action.flags & program::kAccumulate) != 0;
  if (ops::is_unary(op.kind))
    return unary(queue, op, program::kernel_of(action.kind), args, accumulate,
                 op.rows * context.samples);
  switch (action.kind) {
    case ActionKind::forward: return forward(queue, op, args, context);
    case ActionKind::input_gradient: return input_gradient(queue, op, args, accumulate, context);
    case ActionKind::weight_gradient: return weight_gradient(queue, op, args, context);
    default: PLANNER_CHECK(false, "not a kernel");
  }
}

}  // namespace exec::cuda
