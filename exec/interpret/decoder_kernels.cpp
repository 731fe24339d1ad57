// Actions of operators that decoders have had since Llama to their kernels.
#include "exec/host/decoder.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/kernel_parts.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec {

using models::OpKind;
using models::Operator;

void decoder_forward(const Operator& op, std::span<const Operand> args, const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  switch (op.kind) {
    case OpKind::scale: {
      const Forward<ops::scale> a(op, args);
      return host::scale(a["y"], op.scale, rows * op.n);  // y has x's place
    }
    case OpKind::row_gate: {
      const Forward<ops::row_gate> a(op, args);
      return host::row_gate(a["y"], a["x"], a["gate"], row_gates(op, rows));
    }
    case OpKind::latent_join: {
      const Forward<ops::latent_join> a(op, args);
      return host::latent_join(a["qkv"], a["q"], a["kv"], a["k_rope"], head_shape(op, rows), op.k);
    }
    case OpKind::square_sums: {
      const Forward<ops::square_sums> a(op, args);
      return host::square_sums(a["sums"], a["qkv"], head_shape(op, rows));
    }
    case OpKind::width_norm: {
      const Forward<ops::width_norm> a(op, args);
      return host::width_norm(a["y"], a["qkv"], a["sums"], a["q_gamma"], a["k_gamma"],
                              head_shape(op, rows), width_norm(op, c));
    }
    default:
      PLANNER_CHECK(false, "operator without a kernel: " + op.name);  // run() refused it
  }
}

void decoder_input_gradient(const Operator& op, std::span<const Operand> args, bool accumulate,
                            const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  const auto overwrites = [&] {
    PLANNER_CHECK(!accumulate, op.name + " overwrites its inputs' gradients");
  };
  switch (op.kind) {
    case OpKind::scale: {
      const InputGradient<ops::scale> a(op, args);
      overwrites();
      const host::View to = a["d_x"], from = a["d_y"];
      if (to.data != from.data) host::copy(to, from, rows * op.n);
      return host::scale(a["d_x"], op.scale, rows * op.n);
    }
    case OpKind::row_gate: {
      const InputGradient<ops::row_gate> a(op, args);
      return host::row_gate_gradient(a["d_x"], a["d_gate"], a["d_y"], a["x"], a["gate"],
                                     row_gates(op, rows), accumulate);
    }
    case OpKind::latent_join: {
      const InputGradient<ops::latent_join> a(op, args);
      overwrites();
      return host::latent_join_gradient(a["d_q"], a["d_kv"], a["d_k_rope"], a["d_qkv"],
                                        head_shape(op, rows), op.k);
    }
    case OpKind::square_sums: {
      const InputGradient<ops::square_sums> a(op, args);
      return host::square_sums_gradient(a["d_qkv"], a["d_sums"], a["qkv"], head_shape(op, rows),
                                        accumulate);
    }
    case OpKind::width_norm: {
      const InputGradient<ops::width_norm> a(op, args);
      overwrites();
      const host::HeadShape shape = head_shape(op, rows);
      if (a.has("d_q_gamma"))
        host::width_norm_weight_gradient(a["d_q_gamma"], a["d_k_gamma"], a["d_y"], a["qkv"],
                                         a["sums"], shape, width_norm(op, c));
      return host::width_norm_gradient(a["d_qkv"], a["d_sums"], a["d_y"], a["qkv"], a["sums"],
                                       a["q_gamma"], a["k_gamma"], shape, width_norm(op, c));
    }
    default: PLANNER_CHECK(false, "operator without an input gradient: " + op.name);
  }
}

}  // namespace exec
