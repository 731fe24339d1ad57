#include "models/hugging_face.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

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

namespace {

struct Type {
  std::string_view name;               // its model_type
  void (*read)(JsonReader&, ModelSpec&);
};

constexpr std::array kTypes{
    Type{"gpt2", hf::read_gpt2},
    Type{"opt", hf::read_opt},
    Type{"bloom", hf::read_bloom},
    Type{"llama", [](auto& r, auto& s) { hf::read_llama(r, s, Family::llama); }},
    Type{"mistral", [](auto& r, auto& s) { hf::read_llama(r, s, Family::llama); }},
    Type{"phi3", hf::read_phi3},
    Type{"qwen2", [](auto& r, auto& s) { hf::read_llama(r, s, Family::qwen2); }},
    Type{"qwen3", hf::read_qwen3},
    Type{"qwen3_moe", hf::read_qwen3_moe},
    Type{"mixtral", hf::read_mixtral},
    Type{"mpt", hf::read_mpt},
    Type{"bert", hf::read_bert},
    Type{"gpt_neox", hf::read_gpt_neox},
    Type{"olmo2", hf::read_olmo2},
    Type{"cohere", hf::read_cohere},
    Type{"falcon", hf::read_falcon},
    Type{"phi", hf::read_phi},
    Type{"granite", hf::read_granite},
    Type{"starcoder2", hf::read_starcoder2},
    Type{"stablelm", hf::read_stablelm},
    Type{"smollm3", hf::read_smollm3},
    Type{"qwen2_moe", hf::read_qwen2_moe},
    Type{"gemma2", [](auto& r, auto& s) { hf::read_gemma(r, s, false); }},
    Type{"gemma3_text", [](auto& r, auto& s) { hf::read_gemma(r, s, true); }},
    Type{"gpt_oss", hf::read_gpt_oss},
    Type{"glm4_moe", hf::read_glm4_moe},
    Type{"llama4_text", hf::read_llama4},
    Type{"deepseek_v2", [](auto& r, auto& s) { hf::read_deepseek(r, s, Scoring::softmax); }},
    Type{"deepseek_v3", [](auto& r, auto& s) { hf::read_deepseek(r, s, Scoring::sigmoid); }},
    Type{"kimi_k2", [](auto& r, auto& s) { hf::read_deepseek(r, s, Scoring::sigmoid); }},
};

const Type* find_type(std::string_view name) {
  const auto at = std::ranges::find(kTypes, name, &Type::name);
  return at == kTypes.end() ? nullptr : &*at;
}

std::string type_names() {
  std::string all;
  for (const Type& type : kTypes) all += (all.empty() ? "" : ", ") + std::string(type.name);
  return all;
}

// The known type whose keys a configuration has; "" where it has not even a decoder's usual ones.
std::string_view nearest_type(const JsonReader& r) {
  if (r.has("kv_lora_rank")) return r.has("scoring_func") ? "deepseek_v3" : "deepseek_v2";
  if (r.has("n_routed_experts")) return "glm4_moe";
  if (r.has("num_local_experts")) return "mixtral";
  const bool shares = r.has("shared_expert_intermediate_size");
  if (r.has("num_experts")) return shares ? "qwen2_moe" : "qwen3_moe";
  if (r.has("n_embd")) return "gpt2";
  const bool usual = r.has("hidden_size") && r.has("num_attention_heads") &&
                     r.has("num_hidden_layers") && r.has("intermediate_size");
  return usual ? "llama" : "";
}

// The type to read the configuration as; null where there is none, which is a problem then.
const Type* type_of(JsonReader& r, const std::string& like, ModelSpec& spec) {
  std::string own;
  if (!r.required("model_type", own)) return nullptr;
  const Type* known = find_type(own);
  if (like.empty()) {
    const std::string_view near = nearest_type(r);
    if (known == nullptr)
      r.problem("model_type", "one of " + type_names(), "\"" + own + "\"",
                near.empty() ? std::string()
                             : fmt::format("--model-like {} plans for that shape with the sizes of "
                                           "this file, and the plan says what it did not read",
                                           near));
    return known;
  }
  const Type* as = find_type(like);
  if (as == nullptr)
    r.problem("model_type", "--model-like of " + type_names(), "\"" + like + "\"");
  else if (known != nullptr && known != as)
    r.problem("model_type", "--model-like for a type that is not known",
              fmt::format("{}, which is", own), "leave --model-like out");
  else if (known == nullptr)
    spec.read_notes.push_back(
        fmt::format("its model_type, {}, is not known: planned as {} of its sizes, as asked for by "
                    "--model-like; what else it has is not in the plan", own, like));
  return as;
}

}  // namespace

ModelSpec read_hugging_face(JsonReader& reader, const std::string& name, const std::string& like) {
  if (auto text = reader.optional_object("text_config"); text && text->has("model_type")) {
    ModelSpec spec = read_hugging_face(*text, name, like);
    spec.read_notes.push_back("the text part of the model alone (text_config): what reads images, "
                              "sound or video is not in the plan");
    return spec;
  }
  ModelSpec spec;
  spec.name = name;
  spec.source = "Hugging Face config.json";
  const Type* type = type_of(reader, like, spec);
  if (type == nullptr) return spec;
  type->read(reader, spec);
  if (type->name != "llama4_text")     // whose layers have chunks
    hf::read_window(reader, spec, type->name == "gemma2" ? 2 : type->name == "gemma3_text" ? 6 : 0);
  hf::read_rotary_base(reader, spec, type->name);
  hf::read_dropout(reader, spec);
  reader.optional("num_nextn_predict_layers", spec.mtp_layers, IntRange{0, kMaxMtpLayers});
  spec.not_read = hf::left_over(reader);
  return spec;
}

}  // namespace models
