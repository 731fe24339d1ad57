// The feed-forward branch of a layer: dense, or a mixture of experts.
#include <cmath>

#include "models/transformer_builder.hpp"

namespace models {

static OpKind gate_of(Ffn ffn) {
  if (ffn == Ffn::geglu) return OpKind::geglu;
  return ffn == Ffn::clamped_swiglu ? OpKind::clamped_swiglu : OpKind::swiglu;
}

Branch TransformerBuilder::feed(SegmentBuilder& b, TensorIndex normed) const {
  return dense_branch(b, enter(b, "mlp", normed));
}

Branch TransformerBuilder::dense_branch(SegmentBuilder& b, TensorIndex entered) const {
  const Within mlp(b, Module::mlp);
  return ffn_branch(b, entered, dense_feed());
}

TensorIndex TransformerBuilder::mixture(SegmentBuilder& b, TensorIndex normed) const {
  const Within moe(b, Module::moe);
  return options_.expert_over_tensor() ? whole_experts_branch(b, normed)
                                       : experts_branch(b, normed);
}

// The first matrix, which is divided by columns, and the activation.
TensorIndex TransformerBuilder::activated(SegmentBuilder& b, TensorIndex entered,
                                          const Feed& of) const {
  const std::int64_t f = of.width;
  const bool gates = is_gated(v_.ffn);
  const std::int64_t n = gates ? 2 * f : f;
  const std::string name = of.name + (gates ? ".gate_up" : ".fc");
  const Split split = columns(gates ? 2 : 1);
  const ParameterIndex weight = matrix(b, name + ".weight", n, h_, split);
  const ParameterIndex own = bias(b, v_.ffn_bias, name + ".bias", n, split);
  TensorIndex y = linear(b, name, entered, {s_, n / t_, h_}, weight, own);
  if (of.adapts && gates)
    y = adapt(b, name, entered, y, h_, {{"gate", 0, f}, {"up", f, f}}, By::columns);
  if (of.adapts && !gates) y = adapt(b, name, entered, y, h_, {{"up", 0, f}}, By::columns);
  if (gates) {
    const OpKind kind = gate_of(v_.ffn);
    const char* const called = kind == OpKind::geglu ? ".geglu" : ".swiglu";
    return gated(b, of.name + called, kind, y, s_, f / t_);
  }
  if (spec_.activation == Activation::relu)
    return unary(b, of.name + ".relu", OpKind::relu, y, s_, f / t_, {.in_place = true});
  if (spec_.activation == Activation::relu_squared)
    return unary(b, of.name + ".relu_squared", OpKind::relu_squared, y, s_, f / t_);
  return unary(b, of.name + ".gelu", OpKind::gelu, y, s_, f / t_, {.form = spec_.activation});
}

Branch TransformerBuilder::ffn_branch(SegmentBuilder& b, TensorIndex entered,
                                      const Feed& of) const {
  const TensorIndex y = activated(b, entered, of);
  const std::vector<std::string> adapted =
      of.adapts ? std::vector<std::string>{"down"} : std::vector<std::string>{};
  return row_matrix(b, of.name + ".proj", y, of.width, v_.ffn_bias, adapted);
}

// Of all rows, although a rank of sequence parallelism reads its own; of those alone where experts
// lie whole on the tensor ranks.
TensorIndex TransformerBuilder::router_logits(SegmentBuilder& b, const std::string& name,
                                              TensorIndex normed, std::int64_t n,
                                              bool with_bias) const {
  const ParameterIndex weight = matrix(b, name + ".weight", n, h_);
  const ParameterIndex own = bias(b, with_bias, name + ".bias", n);
  const TensorIndex logits =
      wide_linear(b, name, normed, {r_, n, h_}, weight, TensorRole::activation, own);
  const bool gathers = split_rows_ && !options_.expert_over_tensor();
  return gathers ? sequence_gather(b, name + ".gather", logits, s_, n) : logits;
}

// The expert that every token goes to: a tensor rank's result is a part of a sum, and so is what
// its gate is told, as of the gates of chosen experts.
TensorIndex TransformerBuilder::shared_expert(SegmentBuilder& b, TensorIndex normed,
                                              TensorIndex entered) const {
  const Within shared(b, Module::shared_experts);
  const TensorIndex y = ffn_branch(b, entered, {"moe.shared", v_.shared_ffn, false}).y;
  if (!v_.shared_gate) return y;
  TensorIndex gate = router_logits(b, "moe.shared_gate", normed, 1, false);
  if (t_ > 1 && !split_rows_ && !options_.inference)
    gate = tensor_copy(b, "moe.shared_gate.copy", gate, s_, 1);
  return row_gate(b, "moe.shared.gated", y, gate, s_, h_);
}

// The shape of the experts of a rank that sends them so many rows.
ExpertsShape TransformerBuilder::experts_shape(std::int64_t rows) const {
  const bool over = options_.expert_over_tensor();
  return {.rows = rows, .hidden = h_, .ffn_hidden = ffn_hidden_, .experts = v_.experts,
          .chosen = v_.experts_per_token, .tensor = over ? 1 : t_, .ways = options_.expert,
          .data_ways = over ? options_.expert / t_ : options_.expert, .gate = gate_of(v_.ffn),
          .biases = v_.expert_bias, .weighs = !v_.gated_inputs, .load = options_.expert_load};
}

ExpertsInit TransformerBuilder::experts_init() const {
  const double stddev = kInitStddev / std::sqrt(2.0 * static_cast<double>(spec_.layers));
  return {kInitStddev, stddev, frozen_};
}

// Experts that lie whole on one of all tensor ranks of some data ranks: a tensor rank routes the
// rows that are its own under sequence parallelism, and gets them back whole. The expert that every
// token goes to is divided as a dense feed-forward is.
TensorIndex TransformerBuilder::whole_experts_branch(SegmentBuilder& b,
                                                     TensorIndex normed) const {
  const std::int64_t k = v_.experts_per_token;
  const TensorIndex logits = router_logits(b, "moe.router", normed, v_.experts, v_.router_bias);
  const Routing routing = top_k(b, "moe.top_k", logits, r_, v_.experts, k, router());
  const TensorIndex sent =
      v_.gated_inputs ? row_gate(b, "moe.gated", normed, routing.gates, r_, h_, Gate::open)
                      : normed;
  const TensorIndex y = experts(b, sent, routing, experts_shape(r_), experts_init());
  if (v_.shared_ffn == 0) return y;
  const TensorIndex shared = whole_shared_expert(b, normed);
  return add(b, "moe.shared.add", y, shared, r_, h_);
}

TensorIndex TransformerBuilder::whole_shared_expert(SegmentBuilder& b, TensorIndex normed) const {
  const Within shared_experts(b, Module::shared_experts);
  const TensorIndex parts =
      ffn_branch(b, enter(b, "moe", normed), {"moe.shared", v_.shared_ffn, false}).y;
  TensorIndex shared = leave(b, "moe.shared", parts, {});
  if (v_.shared_gate) {
    const TensorIndex gate = router_logits(b, "moe.shared_gate", normed, 1, false);
    shared = row_gate(b, "moe.shared.gated", shared, gate, r_, h_);
  }
  return shared;
}

// Mixture of experts [mixtral]. A tensor rank's outputs are partial sums, and so is what its gates
// are told. Their gradients add up over the ranks (tensor_copy) before a router that reads all
// rows; with sequence parallelism a router reads its rank's rows, the logits are gathered, and
// their gradients, linear in those of the gates, add up on the way back.
TensorIndex TransformerBuilder::experts_branch(SegmentBuilder& b, TensorIndex normed) const {
  const std::int64_t e = v_.experts, k = v_.experts_per_token;
  const TensorIndex logits = router_logits(b, "moe.router", normed, e, v_.router_bias);
  Routing routing = top_k(b, "moe.top_k", logits, s_, e, k, router());
  if (t_ > 1 && !split_rows_ && !options_.inference)
    routing.gates = tensor_copy(b, "moe.gates.copy", routing.gates, s_, k);
  const TensorIndex entered = enter(b, "moe", normed);
  const TensorIndex sent =
      v_.gated_inputs ? row_gate(b, "moe.gated", entered, routing.gates, s_, h_, Gate::open)
                      : entered;
  TensorIndex y = experts(b, sent, routing, experts_shape(s_), experts_init());
  if (v_.shared_ffn > 0)
    y = add(b, "moe.shared.add", y, shared_expert(b, normed, entered), s_, h_);
  return leave(b, "moe", y, {});
}

}  // namespace models
