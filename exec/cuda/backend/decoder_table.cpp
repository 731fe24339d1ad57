#include "exec/cuda/backend/decoder_table.hpp"

#include "exec/interpret/arguments.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec::cuda {

using models::OpKind;
using models::Operator;

namespace {

using Args = std::span<const Operand>;

// This rank has all rows of a sample's types, or a tensor rank's piece.
TypeRows type_rows(const Operator& op, const Operand& types, const KernelContext& c) {
  const std::int64_t each = types.elements / c.samples;
  return {c.samples, op.rows, each, each == op.rows ? 0 : c.tensor_rank * op.rows, op.k, op.n};
}

}  // namespace

void decoder_forward(const Queue& q, const Operator& op, Args args, const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  switch (op.kind) {
    case OpKind::scale: {
      const Forward<ops::scale> a(op, args);
      return scale(q, a["y"], a["x"], op.scale, rows * op.n);
    }
    case OpKind::type_embedding: {
      const Forward<ops::type_embedding> a(op, args);
      return type_embedding(q, a["y"], a["x"], a["wtt"], a["types"],
                            type_rows(op, a.operand("types"), c));
    }
    case OpKind::first_token: {
      const Forward<ops::first_token> a(op, args);
      return first_token(q, a["y"], a["x"], c.samples, token_rows(op, a.operand("x"), c.samples),
                         op.n);
    }
    case OpKind::concat: {
      const Forward<ops::concat> a(op, args);
      const Args x = a.all("x");
      for (std::size_t i = 0; i < x.size(); ++i)
        put_columns(q, a["y"], view(x[i]), column_block(op, i, x[i].elements, c.samples));
      return;
    }
    case OpKind::top_k: {
      const Forward<ops::top_k> a(op, args);
      return top_k(q, a["gates"], a["places"], a["logits"], routing_shape(op, c));
    }
    case OpKind::dispatch: {
      const Forward<ops::dispatch> a(op, args);
      return dispatch(q, a["y"], a["x"], a["places"], copy_shape(op, rows));
    }
    case OpKind::expert_linear: {
      const Forward<ops::expert_linear> a(op, args);
      return expert_linear(q, a["y"], a["x"], a["w"], a["b"], expert_shape(op, c));
    }
    case OpKind::combine: {
      const Forward<ops::combine> a(op, args);
      return combine(q, a["y"], a["x"], a["gates"], a["places"], copy_shape(op, rows));
    }
    case OpKind::row_gate: {
      const Forward<ops::row_gate> a(op, args);
      return row_gate(q, a["y"], a["x"], a["gate"], row_gates(op, rows));
    }
    case OpKind::latent_join: {
      const Forward<ops::latent_join> a(op, args);
      return latent_join(q, a["qkv"], a["q"], a["kv"], a["k_rope"], head_shape(op, rows), op.k);
    }
    case OpKind::square_sums: {
      const Forward<ops::square_sums> a(op, args);
      return square_sums(q, a["sums"], a["qkv"], head_shape(op, rows));
    }
    case OpKind::width_norm: {
      const Forward<ops::width_norm> a(op, args);
      return width_norm(q, a["y"], a["qkv"], a["sums"], a["q_gamma"], a["k_gamma"],
                        head_shape(op, rows), exec::width_norm(op, c));
    }
    default:
      PLANNER_CHECK(false, "operator without a kernel: " + op.name);  // the platform refused it
  }
}

void decoder_input_gradient(const Queue& q, const Operator& op, Args args, bool accumulate,
                            const KernelContext& c) {
  const std::int64_t rows = op.rows * c.samples;
  const auto overwrites = [&] {
    PLANNER_CHECK(!accumulate, op.name + " overwrites its inputs' gradients");
  };
  switch (op.kind) {
    case OpKind::scale: {
      const InputGradient<ops::scale> a(op, args);
      overwrites();
      return scale(q, a["d_x"], a["d_y"], op.scale, rows * op.n);
    }
    case OpKind::first_token: {
      const InputGradient<ops::first_token> a(op, args);
      return first_token_gradient(q, a["d_x"], a["d_y"], c.samples,
                                  token_rows(op, a.operand("d_x"), c.samples), op.n, accumulate);
    }
    case OpKind::concat: {
      const InputGradient<ops::concat> a(op, args);
      const Args dx = a.all("d_x");
      for (std::size_t i = 0; i < dx.size(); ++i)
        take_columns(q, view(dx[i]), a["d_y"], column_block(op, i, dx[i].elements, c.samples),
                     accumulate);
      return;
    }
    case OpKind::top_k: {
      const InputGradient<ops::top_k> a(op, args);
      overwrites();
      return top_k_gradient(q, a["d_logits"], a["d_gates"], a["gates"], a["places"], a["logits"],
                            routing_shape(op, c));
    }
    case OpKind::dispatch: {
      const InputGradient<ops::dispatch> a(op, args);
      return dispatch_gradient(q, a["d_x"], a["d_y"], a["places"], copy_shape(op, rows),
                               accumulate);
    }
    case OpKind::expert_linear: {
      const InputGradient<ops::expert_linear> a(op, args);
      return expert_linear_input_gradient(q, a["d_x"], a["d_y"], a["w"], expert_shape(op, c),
                                          accumulate);
    }
    case OpKind::combine: {
      const InputGradient<ops::combine> a(op, args);
      overwrites();
      return combine_gradient(q, a["d_x"], a["d_gates"], a["d_y"], a["x"], a["gates"], a["places"],
                              copy_shape(op, rows));
    }
    case OpKind::row_gate: {
      const InputGradient<ops::row_gate> a(op, args);
      return row_gate_gradient(q, a["d_x"], a["d_gate"], a["d_y"], a["x"], a["gate"],
                               row_gates(op, rows), accumulate);
    }
    case OpKind::latent_join: {
      const InputGradient<ops::latent_join> a(op, args);
      overwrites();
      return latent_join_gradient(q, a["d_q"], a["d_kv"], a["d_k_rope"], a["d_qkv"],
                                  head_shape(op, rows), op.k);
    }
    case OpKind::square_sums: {
      const InputGradient<ops::square_sums> a(op, args);
      return square_sums_gradient(q, a["d_qkv"], a["d_sums"], a["qkv"], head_shape(op, rows),
                                  accumulate);
    }
    case OpKind::width_norm: {
      const InputGradient<ops::width_norm> a(op, args);
      overwrites();
      const bool weights = a.has("d_q_gamma");
      return width_norm_gradients(q, a["d_qkv"], a["d_sums"], weights ? a["d_q_gamma"] : View{},
                                  weights ? a["d_k_gamma"] : View{}, a["d_y"], a["qkv"], a["sums"],
                                  a["q_gamma"], a["k_gamma"], head_shape(op, rows),
                                  exec::width_norm(op, c));
    }
    default: PLANNER_CHECK(false, "operator without an input gradient: " + op.name);
  }
}

void decoder_weight_gradient(const Queue& q, const Operator& op, Args args,
                             const KernelContext& c) {
  switch (op.kind) {
    case OpKind::type_embedding: {
      const WeightGradient<ops::type_embedding> a(op, args);
      return type_embedding_weight_gradient(q, a["d_wtt"], a["d_y"], a["types"],
                                            type_rows(op, a.operand("types"), c));
    }
    case OpKind::expert_linear: {
      const WeightGradient<ops::expert_linear> a(op, args);
      return expert_linear_weight_gradient(q, a["d_w"], a.has("d_b") ? a["d_b"] : View{}, a["d_y"],
                                           a["x"], expert_shape(op, c));
    }
    default: PLANNER_CHECK(false, "operator without a weight gradient: " + op.name);
  }
}

}  // namespace exec::cuda
