// Readers of decoders since Llama (hugging_face_parts.hpp). Defaults are those of transformers.
#include "models/hugging_face_parts.hpp"

#include <array>
#include <cmath>
#include <string>

#include "models/hugging_face_layers.hpp"
#include "models/layer_kinds.hpp"

namespace models::hf {

using core::IntRange;
using core::JsonReader;

// [olmo2]: LlamaConfig, with norms behind the branches and of all queries and all keys.
void read_olmo2(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::llama);
  spec.variants.residual = Residual::post_branch;
  spec.variants.qk_norm = QkNorm::width;
}

// Parallel branches of one layer norm, without biases; logits are scaled.
void read_cohere(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::llama);
  Variants& v = spec.variants;
  v.norm = Norm::layer_norm;
  v.residual = Residual::parallel;
  v.shared_norm = true;
  v.logit_scale = 0.0625;
  r.optional("logit_scale", v.logit_scale, core::positive());
  r.optional("layer_norm_eps", spec.layer_norm_epsilon, core::positive());
  if (!r.has("tie_word_embeddings")) spec.tied_embeddings = true;
  refuse(r, {{"use_qk_norm", false}});
}

// One key head of all queries (7B), or groups and a norm for each branch (40B, 180B).
void read_falcon(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::gpt_neox);
  Variants& v = spec.variants;
  v.rotary_fraction = 1.0;
  r.required("num_hidden_layers", spec.layers, IntRange{1, kMaxLayers});
  r.required("hidden_size", spec.hidden, kWidthRange);
  r.required("num_attention_heads", spec.heads, kWidthRange);
  r.required("vocab_size", spec.vocab, kWidthRange);
  spec.ffn_hidden = 4 * spec.hidden;
  spec.positions = 2048;
  r.optional("ffn_hidden_size", spec.ffn_hidden, kWidthRange);
  r.optional("max_position_embeddings", spec.positions, kWidthRange);
  r.optional("layer_norm_epsilon", spec.layer_norm_epsilon, core::positive());
  r.optional("tie_word_embeddings", spec.tied_embeddings);
  bool grouped = false, single = true, bias = false;
  r.optional("new_decoder_architecture", grouped);
  r.optional("multi_query", single);
  r.optional("bias", bias);
  spec.kv_heads = single && !grouped ? 1 : spec.heads;
  if (grouped) r.optional("num_kv_heads", spec.kv_heads, kWidthRange);
  v.qkv_bias = v.output_bias = v.ffn_bias = bias;
  v.shared_norm = !grouped;
  refuse(r, {{"alibi", false}, {"parallel_attn", true}});
  read_gelu(r, "activation", spec);
  set_defaults(spec, kTokensPerStep, 2304);
}

// Parallel branches of one norm; the head over the vocabulary has a bias.
void read_phi(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::gpt_neox);
  spec.activation = Activation::gelu_tanh;
  spec.tied_embeddings = false;
  read_common(r, spec);
  Variants& v = spec.variants;
  v.rotary_fraction = 0.5;
  v.shared_norm = v.head_bias = true;
  r.optional("num_key_value_heads", spec.kv_heads, kWidthRange);
  r.optional("partial_rotary_factor", v.rotary_fraction, core::positive());
  r.optional("layer_norm_eps", spec.layer_norm_epsilon, core::positive());
  refuse(r, {{"qk_layernorm", false}});
  read_gelu(r, "hidden_act", spec);
  set_defaults(spec, kTokensPerStep, 2048);
}

// Llama's layers with four multipliers.
void read_granite(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::llama);
  Variants& v = spec.variants;
  double divisor = 1;
  r.optional("embedding_multiplier", v.embedding_scale, core::positive());
  r.optional("residual_multiplier", v.residual_scale, core::positive());
  r.optional("attention_multiplier", v.score_scale, core::positive());
  if (r.optional("logits_scaling", divisor, core::positive())) v.logit_scale = 1 / divisor;
}

void read_starcoder2(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::gpt_neox);
  spec.activation = Activation::gelu_tanh;
  read_common(r, spec);
  Variants& v = spec.variants;
  v.residual = Residual::pre;
  v.rotary_fraction = 1.0;
  r.optional("num_key_value_heads", spec.kv_heads, kWidthRange);
  r.optional("norm_epsilon", spec.layer_norm_epsilon, core::positive());
  bool bias = true;
  r.optional("use_bias", bias);
  v.qkv_bias = v.output_bias = v.ffn_bias = bias;
  read_gelu(r, "hidden_act", spec);
  set_defaults(spec, kTokensPerStep, 2048);
}

// Llama's layers with layer norms, of which a part of each head turns.
void read_stablelm(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::llama);
  Variants& v = spec.variants;
  v.norm = Norm::layer_norm;
  v.norm_bias = true;
  v.rotary_fraction = 0.25;
  r.optional("layer_norm_eps", spec.layer_norm_epsilon, core::positive());
  r.optional("use_qkv_bias", v.qkv_bias);
  r.optional("partial_rotary_factor", v.rotary_fraction, core::positive());
  refuse(r, {{"qk_layernorm", false}, {"use_parallel_residual", false}});
}

// Layers as they are but for their experts, of which `change` says the rest; the others are dense.
template <class Change>
static void set_mixtures(JsonReader& r, ModelSpec& spec, std::string_view experts, Change change) {
  const LayerKind dense{"dense", spec.ffn_hidden, spec.variants};
  LayerKind mixture = dense;
  mixture.name = "mixture";
  r.required(experts, mixture.variants.experts, IntRange{1, kMaxExperts});
  r.required("num_experts_per_tok", mixture.variants.experts_per_token, IntRange{1, kMaxExperts});
  change(mixture);
  set_layers_by(spec, mixture_layers(r, spec.layers), mixture, dense);
}

// A shared expert that a sigmoid gates; gates need not add up to one.
void read_qwen2_moe(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::qwen2);
  set_mixtures(r, spec, "num_experts", [&](LayerKind& mixture) {
    Variants& v = mixture.variants;
    v.normalised_gates = false;
    r.required("moe_intermediate_size", mixture.ffn_hidden, kWidthRange);
    r.required("shared_expert_intermediate_size", v.shared_ffn, kWidthRange);
    r.optional("norm_topk_prob", v.normalised_gates);
    v.shared_gate = true;
  });
}

// [gemma2]; the third [gemma3] has norms of heads in place of caps.
void read_gemma(JsonReader& r, ModelSpec& spec, bool third) {
  spec.head_dim = 256;
  read_llama_sizes(r, spec, Family::llama);
  Variants& v = spec.variants;
  if (!r.has("tie_word_embeddings")) spec.tied_embeddings = true;
  v.ffn = Ffn::geglu;
  v.residual = Residual::sandwich;
  v.norm_offset = true;
  v.embedding_scale = std::sqrt(static_cast<double>(spec.hidden));
  double scalar = 256;
  r.optional("query_pre_attn_scalar", scalar, core::positive());
  v.score_scale = 1 / std::sqrt(scalar);
  if (third) v.qk_norm = QkNorm::heads;
  static constexpr std::array<std::string_view, 1> kTanh{"gelu_pytorch_tanh"};
  std::string activation;
  r.optional_one_of("hidden_activation", kTanh, activation);
  r.optional("attn_logit_softcapping", v.attention_soft_cap, core::positive());
  r.optional("final_logit_softcapping", v.logit_soft_cap, core::positive());
}

void read_gpt_oss(JsonReader& r, ModelSpec& spec) {
  spec.head_dim = 64;
  read_llama(r, spec, Family::llama);
  spec.variants.sinks = true;
  if (!r.has("attention_bias")) spec.variants.qkv_bias = spec.variants.output_bias = true;
  spec.variants.ffn = Ffn::clamped_swiglu;
  set_mixtures(r, spec, "num_local_experts", [&](LayerKind& mixture) {
    mixture.variants.router_bias = mixture.variants.expert_bias = true;
  });
}

// What DeepSeek's and GLM's mixtures share.
static void read_routed(JsonReader& r, LayerKind& mixture) {
  Variants& v = mixture.variants;
  std::int64_t shared = 0;
  r.required("moe_intermediate_size", mixture.ffn_hidden, kWidthRange);
  r.optional("n_shared_experts", shared, IntRange{0, kMaxExperts});
  r.optional("norm_topk_prob", v.normalised_gates);
  r.optional("routed_scaling_factor", v.gate_scale, core::positive());
  std::int64_t groups = 1, chosen = 1;
  r.optional("n_group", groups, IntRange{1, kMaxExperts});
  r.optional("topk_group", chosen, IntRange{1, kMaxExperts});
  if (chosen < groups) v.expert_groups = groups, v.groups_per_token = chosen;
  v.shared_ffn = shared * mixture.ffn_hidden;
}

void read_glm4_moe(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::llama);
  Variants& v = spec.variants;
  v.output_bias = false;               // attention_bias is of q, k and v alone
  v.rotary_fraction = 0.5;
  bool normed = false;
  r.optional("partial_rotary_factor", v.rotary_fraction, core::positive());
  if (r.optional("use_qk_norm", normed) && normed) v.qk_norm = QkNorm::heads;
  set_mixtures(r, spec, "n_routed_experts", [&](LayerKind& mixture) {
    mixture.variants.scoring = Scoring::sigmoid;
    read_routed(r, mixture);
  });
}

// Llama4TextConfig: layers that turn by position see chunks and norm their heads without gammas;
// the others see all tokens. Between mixtures, whose one expert a token's gate weighs on the way
// in, may lie dense layers.
void read_llama4(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::llama);
  if (!r.has("head_dim")) spec.head_dim = 128;
  std::int64_t dense_width = 16384, chunk = 8192;
  bool normed = true;
  r.optional("intermediate_size_mlp", dense_width, kWidthRange);
  r.optional("attention_chunk_size", chunk, kWidthRange);
  r.optional("use_qk_norm", normed);
  // Queries that nothing turns are scaled by their place: a factor a row.
  for (const std::string_view key : {"attn_temperature_tuning", "floor_scale", "attn_scale"}) {
    core::Json scale;
    r.optional(key, scale);
  }
  std::int64_t experts = 16, chosen = 1;
  r.optional("num_local_experts", experts, IntRange{1, kMaxExperts});
  r.optional("num_experts_per_tok", chosen, IntRange{1, kMaxExperts});
  if (chosen != 1)
    r.problem("num_experts_per_tok", "1", std::to_string(chosen),
              "this variant of the model is not supported");
  const std::vector<bool> mixes = mixture_layers(r, spec.layers);
  const std::vector<bool> turns = rotary_layers(r, spec.layers);
  std::vector<std::string> types;      // the same once more: chunked_attention where it turns
  r.optional("layer_types", types);
  std::vector<LayerKind> layers;
  for (std::size_t l = 0; l < mixes.size() && l < turns.size(); ++l) {
    LayerKind kind{turns[l] ? "local" : "global", spec.ffn_hidden, spec.variants};
    Variants& v = kind.variants;
    const bool told = l < types.size();
    if (told ? types[l] == "chunked_attention" : turns[l]) v.chunk = chunk;
    if (!turns[l]) v.position_kind = Positions::none;
    if (turns[l] && normed) v.qk_norm = QkNorm::plain;
    if (mixes[l]) {
      v.experts = experts;
      v.experts_per_token = 1;
      v.scoring = Scoring::sigmoid;
      v.normalised_gates = false;
      v.gated_inputs = true;
      v.shared_ffn = spec.ffn_hidden;
    } else {
      kind.name = turns[l] ? "dense" : "global_dense";
      kind.ffn_hidden = dense_width;
    }
    layers.push_back(std::move(kind));
  }
  if (!layers.empty()) set_layers(spec, layers);
}

// [deepseekv2]: groups that limit the choice of experts, and a bias that ranks them, are not in the
// graph (schemas_experts.hpp).
void read_deepseek(JsonReader& r, ModelSpec& spec, Scoring scoring) {
  read_llama(r, spec, Family::llama);
  Variants& v = spec.variants;
  std::int64_t plain = 0;
  r.required("kv_lora_rank", v.kv_rank, kWidthRange);
  if (r.has("q_lora_rank")) r.required("q_lora_rank", v.q_rank, kWidthRange);
  r.required("qk_rope_head_dim", v.rope_dim, kWidthRange);
  r.required("qk_nope_head_dim", plain, kWidthRange);
  r.required("v_head_dim", v.value_dim, kWidthRange);
  spec.head_dim = plain + v.rope_dim;
  spec.kv_heads = spec.heads;
  set_mixtures(r, spec, "n_routed_experts", [&](LayerKind& mixture) {
    mixture.variants.scoring = scoring;
    mixture.variants.normalised_gates = scoring == Scoring::sigmoid;
    read_routed(r, mixture);
  });
}

}  // namespace models::hf
