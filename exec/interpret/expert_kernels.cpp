// Actions of mixtures of experts to their kernels.
#include "exec/host/experts.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/kernel_parts.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec {

using models::OpKind;
using models::Operator;

void expert_forward(const Operator& op, std::span<const Operand> args, const KernelContext& c,
                    host::Workspace ws) {
  const std::int64_t rows = op.rows * c.samples;
  switch (op.kind) {
    case OpKind::top_k: {
      const Forward<ops::top_k> a(op, args);
      return host::top_k(a["gates"], a["places"], a["logits"], routing_shape(op, c), ws);
    }
    case OpKind::dispatch: {
      const Forward<ops::dispatch> a(op, args);
      return host::dispatch(a["y"], a["x"], a["places"], copy_shape(op, rows));
    }
    case OpKind::expert_linear: {
      const Forward<ops::expert_linear> a(op, args);
      return host::expert_linear(a["y"], a["x"], a["w"], a["b"], expert_shape(op, c), ws);
    }
    case OpKind::combine: {
      const Forward<ops::combine> a(op, args);
      return host::combine(a["y"], a["x"], a["gates"], a["places"],
                           copy_shape(op, rows));
    }
    default: return decoder_forward(op, args, c);
  }
}

void expert_input_gradient(const Operator& op, std::span<const Operand> args, bool accumulate,
                           const KernelContext& c, host::Workspace ws) {
  const std::int64_t rows = op.rows * c.samples;
  switch (op.kind) {
    case OpKind::top_k: {
      const InputGradient<ops::top_k> a(op, args);
      PLANNER_CHECK(!accumulate, "top_k overwrites its input's gradient");
      return host::top_k_gradient(a["d_logits"], a["d_gates"], a["gates"], a["places"],
                                  a["logits"], routing_shape(op, c));
    }
    case OpKind::dispatch: {
      const InputGradient<ops::dispatch> a(op, args);
      return host::dispatch_gradient(a["d_x"], a["d_y"], a["places"], copy_shape(op, rows),
                                     accumulate);
    }
    case OpKind::expert_linear: {
      const InputGradient<ops::expert_linear> a(op, args);
      return host::expert_linear_input_gradient(a["d_x"], a["d_y"], a["w"], expert_shape(op, c),
                                                accumulate, ws);
    }
    case OpKind::combine: {
      const InputGradient<ops::combine> a(op, args);
      PLANNER_CHECK(!accumulate, "combine overwrites its inputs' gradients");
      return host::combine_gradient(a["d_x"], a["d_gates"], a["d_y"], a["x"], a["gates"],
                                    a["places"], copy_shape(op, rows));
    }
    default: return decoder_input_gradient(op, args, accumulate, c);
  }
}

void expert_weight_gradient(const Operator& op, std::span<const Operand> args,
                            const KernelContext& c, host::Workspace ws) {
  PLANNER_CHECK(op.kind == OpKind::expert_linear, "no weight gradient: " + op.name);
  const WeightGradient<ops::expert_linear> a(op, args);
  const host::ExpertShape shape = expert_shape(op, c);
  host::expert_linear_weight_gradient(a["d_w"], a["d_y"], a["x"], shape, ws);
  if (a.has("d_b"))
    host::expert_bias_gradient(a["d_b"], a.has("summed") ? a["summed"] : a["d_y"], shape);
}

}  // namespace exec
