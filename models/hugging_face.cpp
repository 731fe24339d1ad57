#include "models/hugging_face.hpp"

#include <algorithm>
#include <array>

#include "models/hugging_face_layers.hpp"
#include "models/hugging_face_parts.hpp"

namespace models {

using core::IntRange;
using core::JsonReader;

namespace hf {

constexpr std::int64_t kGpt2TokensPerStep = 512 * 1024;  // GPT-2's batch, for the default
constexpr std::int64_t kLongestDefault =
    8192;  // tokens: long contexts are trained on last, briefly
void refuse(JsonReader& r, std::initializer_list<Fixed> fixed) {
  for (const auto& [key, supported] : fixed) {
    bool value = supported;
    if (r.optional(key, value) && value != supported) {
      r.problem(key, supported ? "true" : "false", value ? "true" : "false",
                "this variant of the model is not supported");
    }
  }
}

// Both names are the tanh form; "gelu" is the erf form, another function.
void read_gelu(JsonReader& r, std::string_view key, ModelSpec& spec) {
  static constexpr std::array<std::string_view, 4> kGelu{"gelu", "gelu_new", "gelu_pytorch_tanh",
                                                         "gelu_fast"};
  std::string text;
  if (!r.optional_one_of(key, kGelu, text)) return;
  spec.activation = text == "gelu" ? Activation::gelu_erf : Activation::gelu_tanh;
}

void read_silu(JsonReader& r) {
  static constexpr std::array<std::string_view, 2> kSilu{"silu", "swish"};
  std::string text;
  r.optional_one_of("hidden_act", kSilu, text);
}

void set_family(ModelSpec& spec, Family family) {
  spec.family = family;
  spec.variants = variants_of(family);
  spec.activation = activation_of(family);
}

void set_defaults(ModelSpec& spec, std::int64_t places, std::int64_t tokens,
                  std::int64_t most_samples) {
  spec.default_seq_len = std::clamp<std::int64_t>(places, 1, kLongestDefault);
  spec.default_global_batch =
      std::clamp<std::int64_t>(tokens / spec.default_seq_len, 1, most_samples);
}

void set_defaults(ModelSpec& spec, std::int64_t tokens, std::int64_t most_samples) {
  set_defaults(spec, spec.positions, tokens, most_samples);
}

// Keys of transformers' GPT2Config that change the arithmetic, with the value that we compute.
void read_gpt2(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::gpt2);
  r.required("n_layer", spec.layers, IntRange{1, kMaxLayers});
  r.required("n_embd", spec.hidden, kWidthRange);
  r.required("n_head", spec.heads, kWidthRange);
  r.required("vocab_size", spec.vocab, kWidthRange);
  const char* positions = r.has("n_positions") || !r.has("n_ctx") ? "n_positions" : "n_ctx";
  r.required(positions, spec.positions, kWidthRange);
  spec.kv_heads = spec.heads;
  spec.ffn_hidden = 4 * spec.hidden;
  r.optional("n_inner", spec.ffn_hidden, kWidthRange);
  r.optional("tie_word_embeddings", spec.tied_embeddings);
  r.optional("layer_norm_epsilon", spec.layer_norm_epsilon, core::positive());
  refuse(r, {{"scale_attn_weights", true},
             {"scale_attn_by_inverse_layer_idx", false},
             {"add_cross_attention", false}});
  read_gelu(r, "activation_function", spec);
  spec.default_seq_len = std::max<std::int64_t>(spec.positions, 1);
  spec.default_global_batch =
      std::clamp<std::int64_t>(kGpt2TokensPerStep / spec.default_seq_len, 1, 512);
}

// The keys that most of transformers' later configurations share.
void read_common(JsonReader& r, ModelSpec& spec,
                 std::string_view ffn_hidden) {
  r.required("num_hidden_layers", spec.layers, IntRange{1, kMaxLayers});
  r.required("hidden_size", spec.hidden, kWidthRange);
  r.required("num_attention_heads", spec.heads, kWidthRange);
  r.required(ffn_hidden, spec.ffn_hidden, kWidthRange);
  r.required("vocab_size", spec.vocab, kWidthRange);
  r.required("max_position_embeddings", spec.positions, kWidthRange);
  spec.kv_heads = spec.heads;
  r.optional("tie_word_embeddings", spec.tied_embeddings);
}

// The position table has two rows more than tokens [opt]: places are counted from two.
void read_opt(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::opt);
  read_common(r, spec, "ffn_dim");
  const std::int64_t tokens = spec.positions;
  spec.positions += 2;
  std::int64_t embedded = spec.hidden;
  if (r.optional("word_embed_proj_dim", embedded, kWidthRange) && embedded != spec.hidden)
    r.problem("word_embed_proj_dim", "hidden_size", std::to_string(embedded),
              "embeddings of another width are not supported");
  static constexpr std::array<std::string_view, 1> kRelu{"relu"};
  std::string activation;
  r.optional_one_of("activation_function", kRelu, activation);
  refuse(r, {{"do_layer_norm_before", true},
             {"enable_bias", true},
             {"layer_norm_elementwise_affine", true},
             {"_remove_final_layer_norm", false}});
  set_defaults(spec, tokens, kTokensPerStep, 2048);
}

void read_bloom(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::bloom);
  r.required("n_layer", spec.layers, IntRange{1, kMaxLayers});
  r.required(r.has("n_embed") ? "n_embed" : "hidden_size", spec.hidden, kWidthRange);
  r.required(r.has("num_attention_heads") ? "num_attention_heads" : "n_head", spec.heads,
             kWidthRange);
  r.required("vocab_size", spec.vocab, kWidthRange);
  spec.positions = 2048;               // [bloom] section 3.2.1: linear biases; trained on 2048
  r.optional("seq_length", spec.positions, kWidthRange);
  spec.kv_heads = spec.heads;
  spec.ffn_hidden = 4 * spec.hidden;
  r.optional("tie_word_embeddings", spec.tied_embeddings);
  r.optional("layer_norm_epsilon", spec.layer_norm_epsilon, core::positive());
  refuse(r, {{"apply_residual_connection_post_layernorm", false}});
  set_defaults(spec, kTokensPerStep, 2048);
}

// A window that some layer uses: Qwen's configurations state one and say apart whether it is used.
// usual_pattern: as window_layers takes it.
void read_window(JsonReader& r, ModelSpec& spec, std::int64_t usual_pattern) {
  bool used = true;
  r.optional("use_sliding_window", used);
  const std::vector<bool> local = window_layers(r, spec.layers, usual_pattern);
  std::int64_t window = 0;
  const bool read = r.optional("sliding_window", window, kWidthRange);
  if (read && used && std::ranges::count(local, true) > 0) set_window_by(spec, local, window);
}

// The largest of its kinds: each is one elementwise kernel, which the graph leaves out.
void read_dropout(JsonReader& r, ModelSpec& spec) {
  for (const std::string_view key :
       {"attn_pdrop", "embd_pdrop", "emb_pdrop", "resid_pdrop", "attention_dropout",
        "hidden_dropout", "dropout", "activation_dropout", "attention_probs_dropout_prob",
        "hidden_dropout_prob"}) {
    double probability = 0;
    if (r.optional(key, probability, core::NumberRange{0, 1, false}))
      spec.dropout = std::max(spec.dropout, probability);
  }
}

void read_llama_sizes(JsonReader& r, ModelSpec& spec, Family family) {
  set_family(spec, family);
  spec.tied_embeddings = false;
  read_common(r, spec);
  r.optional("num_key_value_heads", spec.kv_heads, kWidthRange);
  r.optional("head_dim", spec.head_dim, kWidthRange);
  if (spec.head_dim > 0 && spec.head_dim * spec.heads == spec.hidden) spec.head_dim = 0;
  r.optional("rms_norm_eps", spec.layer_norm_epsilon, core::positive());
  r.optional("attention_bias", spec.variants.output_bias);
  if (spec.variants.output_bias) spec.variants.qkv_bias = true;
  r.optional("mlp_bias", spec.variants.ffn_bias);
  set_defaults(spec, kTokensPerStep, 2048);
}

void read_llama(JsonReader& r, ModelSpec& spec, Family family) {
  read_llama_sizes(r, spec, family);
  read_silu(r);
}

// Qwen3Config: heads have a width of their own, 128 unless it says another.
void read_qwen3(JsonReader& r, ModelSpec& spec) {
  spec.head_dim = 128;
  read_llama(r, spec, Family::qwen3);
}

// The gates of the chosen experts add up to one, as Mixtral's do. Layers between may be dense.
void read_qwen3_moe(JsonReader& r, ModelSpec& spec) {
  read_qwen3(r, spec);
  LayerKind dense{"dense", spec.ffn_hidden, spec.variants}, mixture = dense;
  mixture.name = "mixture";
  Variants& v = mixture.variants;
  r.required("num_experts", v.experts, IntRange{1, kMaxExperts});
  r.required("num_experts_per_tok", v.experts_per_token, IntRange{1, kMaxExperts});
  r.required("moe_intermediate_size", mixture.ffn_hidden, kWidthRange);
  bool sums_to_one = false;
  if (r.required("norm_topk_prob", sums_to_one) && !sums_to_one)
    r.problem("norm_topk_prob", "true", "false", "this variant of the model is not supported");
  set_layers_by(spec, mixture_layers(r, spec.layers), mixture, dense);
}

// Every fourth layer, or those that are named, attends without rotation.
void read_smollm3(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::llama);
  if (!r.has("tie_word_embeddings")) spec.tied_embeddings = true;
  const LayerKind rotary{"rotary", spec.ffn_hidden, spec.variants};
  LayerKind still = rotary;
  still.name = "no_positions";
  still.variants.position_kind = Positions::none;
  set_layers_by(spec, rotary_layers(r, spec.layers), rotary, still);
}

// Joined matrices (qkv, gate and up) that compute what Llama's do.
void read_phi3(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::llama);
  r.optional("partial_rotary_factor", spec.variants.rotary_fraction, core::positive());
}

void read_mixtral(JsonReader& r, ModelSpec& spec) {
  read_llama(r, spec, Family::mixtral);
  r.required("num_local_experts", spec.variants.experts, IntRange{1, kMaxExperts});
  r.required("num_experts_per_tok", spec.variants.experts_per_token, IntRange{1, kMaxExperts});
}

void read_mpt(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::mpt);
  r.required("n_layers", spec.layers, IntRange{1, kMaxLayers});
  r.required("d_model", spec.hidden, kWidthRange);
  r.required("n_heads", spec.heads, kWidthRange);
  r.required("vocab_size", spec.vocab, kWidthRange);
  r.required("max_seq_len", spec.positions, kWidthRange);
  std::int64_t ratio = 4;
  r.optional("expansion_ratio", ratio, IntRange{1, 64});
  spec.ffn_hidden = ratio * spec.hidden;
  spec.kv_heads = spec.heads;
  bool no_bias = true, alibi = false;
  r.optional("no_bias", no_bias);
  Variants& v = spec.variants;
  v.qkv_bias = v.output_bias = v.ffn_bias = v.norm_bias = !no_bias;
  if (auto attention = r.optional_object("attn_config")) {
    attention->optional("alibi", alibi);
    attention->optional("kv_n_heads", spec.kv_heads, kWidthRange);
    refuse(*attention, {{"qk_ln", false}, {"rope", false}, {"prefix_lm", false}});
  }
  v.position_kind = alibi ? Positions::alibi : Positions::learned;
  r.optional("tie_word_embeddings", spec.tied_embeddings);
  r.optional("layer_norm_epsilon", spec.layer_norm_epsilon, core::positive());
  set_defaults(spec, kTokensPerStep, 2048);
}

void read_bert(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::bert);
  read_common(r, spec);
  r.optional("type_vocab_size", spec.variants.token_types, IntRange{0, kMaxWidth});
  r.optional("layer_norm_eps", spec.layer_norm_epsilon, core::positive());
  read_gelu(r, "hidden_act", spec);
  static constexpr std::array<std::string_view, 1> kAbsolute{"absolute"};
  std::string positions;
  r.optional_one_of("position_embedding_type", kAbsolute, positions);
  refuse(r, {{"is_decoder", false}, {"add_cross_attention", false}});
  set_defaults(spec, 256 * 512, 256);  // [bert] appendix A.2
}

void read_gpt_neox(JsonReader& r, ModelSpec& spec) {
  set_family(spec, Family::gpt_neox);
  spec.tied_embeddings = false;
  read_common(r, spec);
  r.optional("rotary_pct", spec.variants.rotary_fraction, core::positive());
  r.optional("layer_norm_eps", spec.layer_norm_epsilon, core::positive());
  bool parallel = true;
  r.optional("use_parallel_residual", parallel);
  if (!parallel) spec.variants.residual = Residual::pre;
  bool bias = true;
  if (r.optional("attention_bias", bias)) spec.variants.qkv_bias = spec.variants.output_bias = bias;
  read_gelu(r, "hidden_act", spec);
  set_defaults(spec, kTokensPerStep, 2048);
}

}  // namespace hf

ModelSpec read_hugging_face(JsonReader& reader, const std::string& name) {
  using namespace hf;
  static constexpr std::array<std::string_view, 29> kSupported{
      "gpt2",      "opt",     "bloom",      "llama",    "mistral",   "phi3",    "qwen2",
      "qwen3",     "qwen3_moe", "mixtral",  "mpt",      "bert",      "gpt_neox", "olmo2",
      "cohere",    "falcon",  "phi",        "granite",  "starcoder2", "stablelm", "smollm3",
      "qwen2_moe", "gemma2",  "gemma3_text", "gpt_oss", "glm4_moe",  "deepseek_v2",
      "deepseek_v3", "kimi_k2"};
  ModelSpec spec;
  spec.name = name;
  spec.source = "Hugging Face config.json";
  std::string type;
  if (!reader.one_of("model_type", kSupported, type)) return spec;
  if (type == "gpt2") read_gpt2(reader, spec);
  if (type == "opt") read_opt(reader, spec);
  if (type == "bloom") read_bloom(reader, spec);
  if (type == "llama" || type == "mistral") read_llama(reader, spec, Family::llama);
  if (type == "qwen2") read_llama(reader, spec, Family::qwen2);
  if (type == "qwen3") read_qwen3(reader, spec);
  if (type == "qwen3_moe") read_qwen3_moe(reader, spec);
  if (type == "smollm3") read_smollm3(reader, spec);
  if (type == "phi3") read_phi3(reader, spec);
  if (type == "mixtral") read_mixtral(reader, spec);
  if (type == "mpt") read_mpt(reader, spec);
  if (type == "bert") read_bert(reader, spec);
  if (type == "gpt_neox") read_gpt_neox(reader, spec);
  if (type == "olmo2") read_olmo2(reader, spec);
  if (type == "cohere") read_cohere(reader, spec);
  if (type == "falcon") read_falcon(reader, spec);
  if (type == "phi") read_phi(reader, spec);
  if (type == "granite") read_granite(reader, spec);
  if (type == "starcoder2") read_starcoder2(reader, spec);
  if (type == "stablelm") read_stablelm(reader, spec);
  if (type == "qwen2_moe") read_qwen2_moe(reader, spec);
  if (type == "gemma2" || type == "gemma3_text") read_gemma(reader, spec, type == "gemma3_text");
  if (type == "gpt_oss") read_gpt_oss(reader, spec);
  if (type == "glm4_moe") read_glm4_moe(reader, spec);
  if (type == "deepseek_v2") read_deepseek(reader, spec, Scoring::softmax);
  if (type == "deepseek_v3" || type == "kimi_k2") read_deepseek(reader, spec, Scoring::sigmoid);
  read_window(reader, spec, type == "gemma2" ? 2 : type == "gemma3_text" ? 6 : 0);
  read_dropout(reader, spec);
  reader.optional("num_nextn_predict_layers", spec.mtp_layers, IntRange{0, kMaxMtpLayers});
  spec.not_read = hf::left_over(reader);
  return spec;
}

}  // namespace models
