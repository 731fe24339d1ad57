// The attention branch of a layer: queries, keys and values from one matrix or from latents, what
// is done to heads before the core, and the core itself.
#include "models/transformer_builder.hpp"

namespace models {

// Of what the layer's norm made, or of the residual stream where no norm stands before the branch.
Branch TransformerBuilder::attend(SegmentBuilder& b, TensorIndex normed) const {
  if (v_.kv_rank > 0) return latent_branch(b, normed);
  return attention_branch(b, enter(b, "attn", normed));
}

// Queries, keys and values in one matrix, each divided over the ranks by itself.
TensorIndex TransformerBuilder::qkv(SegmentBuilder& b, TensorIndex normed) const {
  const std::int64_t q = spec_.heads * d_, kv = spec_.kv_heads * d_, n = q + 2 * kv;
  const Split split = columns(q == kv ? 3 : 1);
  const auto with_blocks = [&](Parameter p) {
    if (q != kv) p.split_blocks = {q, kv, kv};
    p.trainable = !frozen_;
    return b.parameter(std::move(p));
  };
  const ParameterIndex weight = with_blocks(
      make_parameter("attn.qkv.weight", {n, h_}, split, Init::normal, kInitStddev));
  const ParameterIndex own =
      v_.qkv_bias ? with_blocks(make_parameter("attn.qkv.bias", {n}, split, Init::zero)) : -1;
  const TensorIndex y = linear(b, "attn.qkv", normed, {s_, n / t_, h_}, weight, own);
  return adapt(b, "attn.qkv", normed, y, h_, {{"q", 0, q}, {"k", q, kv}, {"v", q + kv, kv}},
               By::columns);
}

// Gammas of heads are one head wide and shared by all heads, of which each rank has some.
TensorIndex TransformerBuilder::normed_heads(SegmentBuilder& b, TensorIndex x,
                                             const HeadShape& shape) const {
  if (v_.qk_norm == QkNorm::none) return x;
  if (v_.qk_norm == QkNorm::plain) return qk_norm(b, "attn.qk_norm", x, s_, shape, -1, -1);
  const std::string q = "attn.q_norm.weight", k = "attn.k_norm.weight";
  if (v_.qk_norm == QkNorm::width) {
    const ParameterIndex of_q = vector(b, q, spec_.heads * d_, Init::one, columns());
    const ParameterIndex of_k = vector(b, k, spec_.kv_heads * d_, Init::one, columns());
    return width_norm(b, "attn.qk_norm", x, s_, shape, of_q, of_k, t_);
  }
  const auto gamma = [&](const std::string& of) {
    return vector(b, of, d_, v_.norm_offset ? Init::zero : Init::one, {}, t_ > 1);
  };
  const ParameterIndex of_q = gamma(q), of_k = gamma(k);
  return qk_norm(b, "attn.qk_norm", x, s_, shape, of_q, of_k, v_.norm_offset ? 1 : 0);
}

// Context ranks that exchange heads have all rows of some of them.
TensorIndex TransformerBuilder::core(SegmentBuilder& b, TensorIndex x,
                                     const HeadShape& shape) const {
  AttentionUse use{.causal = v_.causal,
                   .alibi = v_.position_kind == Positions::alibi,
                   .keys = options_.seq_len,
                   .window = v_.window,
                   .chunk = v_.chunk,
                   .soft_cap = v_.attention_soft_cap,
                   .score_scale = v_.score_scale,
                   .sinks = -1};
  if (v_.sinks) use.sinks = vector(b, "attn.sinks", spec_.heads, Init::zero, columns());
  if (!options_.exchange_heads || options_.context == 1)
    return attention(b, "attn.core", x, s_, shape, use);
  const std::int64_t c = options_.context;
  const TensorIndex all_rows = head_exchange(b, "attn.to_heads", x, s_, shape);
  const TensorIndex y = attention(b, "attn.core", all_rows, options_.seq_len,
                                  {shape.heads / c, shape.kv_heads / c, d_}, use);
  return row_exchange(b, "attn.to_rows", y, s_, shape);
}

Branch TransformerBuilder::attention_branch(SegmentBuilder& b, TensorIndex entered) const {
  const bool shares = t_ > spec_.kv_heads;
  const HeadShape shape{spec_.heads / t_, shares ? 1 : spec_.kv_heads / t_, d_};
  TensorIndex x = qkv(b, entered);
  if (shares) x = key_gather(b, "attn.keys", x, s_, shape, t_ / spec_.kv_heads);
  x = normed_heads(b, x, shape);
  if (v_.position_kind == Positions::rotary) {
    const double share = v_.rotary_fraction * static_cast<double>(d_);
    x = rope(b, "attn.rope", x, s_, shape, static_cast<std::int64_t>(share),
             v_.rotary_base);
  }
  return row_matrix(b, "attn.proj", core(b, x, shape), spec_.heads * d_, v_.output_bias, {"o"});
}

// A projection to `rank` columns and its norm: the same on all tensor ranks, or of each one's rows.
TensorIndex TransformerBuilder::latent(SegmentBuilder& b, const std::string& name,
                                       TensorIndex normed, std::int64_t rank) const {
  const ParameterIndex weight = matrix(b, name + ".weight", rank, h_);
  const TensorIndex y = linear(b, name, normed, {r_, rank, h_}, weight);
  const Within up(b, Module::mla_up_proj);
  return enter(b, name, norm(b, name + "_norm", y, rank), rank);
}

// [deepseekv2] section 2.1. The projection to the latent of keys and values and the one to the part
// of keys that turns are one matrix there; here each is a matrix of its own, of the same numbers.
// Of a head's dimensions those that turn come first: an order of columns.
Branch TransformerBuilder::latent_branch(SegmentBuilder& b, TensorIndex normed) const {
  const std::int64_t heads = spec_.heads, rope_dim = v_.rope_dim, plain = d_ - rope_dim;
  const auto heads_of = [&](const std::string& name, TensorIndex x, std::int64_t each,
                            std::int64_t inputs) {
    const ParameterIndex weight = matrix(b, name + ".weight", heads * each, inputs, columns());
    const Within up(b, Module::mla_up_proj);
    return linear(b, name, x, {s_, heads * each / t_, inputs}, weight);
  };
  const bool narrow = v_.q_rank > 0;
  const TensorIndex q_from =
      narrow ? latent(b, "attn.q_a", normed, v_.q_rank) : enter(b, "attn.q", normed);
  const TensorIndex q = heads_of("attn.q_b", q_from, d_, narrow ? v_.q_rank : h_);
  const TensorIndex kv_from = latent(b, "attn.kv_a", normed, v_.kv_rank);
  const TensorIndex kv = heads_of("attn.kv_b", kv_from, plain + v_.value_dim, v_.kv_rank);
  const ParameterIndex rope_weight = matrix(b, "attn.k_rope.weight", rope_dim, h_);
  const TensorIndex turned = linear(b, "attn.k_rope", normed, {r_, rope_dim, h_}, rope_weight);
  const HeadShape shape{heads / t_, heads / t_, d_, v_.value_dim};
  const TensorIndex entered = enter(b, "attn.k_rope", turned, rope_dim);
  const auto joined = [&] {
    const Within up(b, Module::mla_up_proj);
    const TensorIndex x = latent_join(b, "attn.join", q, kv, entered, s_, shape, rope_dim);
    return rope(b, "attn.rope", x, s_, shape, rope_dim, v_.rotary_base);
  };
  const TensorIndex x = joined();
  return row_matrix(b, "attn.proj", core(b, x, shape), heads * v_.value_dim, v_.output_bias,
                    {"o"});
}

}  // namespace models
