// Readers of decoders since Llama (hugging_face_parts.hpp). Defaults are those of transformers.
#include "models/hugging_face_parts.hpp"

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

}  // namespace models::hf
