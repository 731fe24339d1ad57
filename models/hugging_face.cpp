#include "models/hugging_face.hpp"

#include <algorithm>
#include <array>

namespace models {

using core::IntRange;
using core::JsonReader;

namespace {

constexpr std::int64_t kTokensPerStep = 512 * 1024;  // GPT-2's batch, for the default
constexpr IntRange kWidthRange{1, kMaxWidth};

// Keys of transformers' GPT2Config that change the arithmetic, with the value that we compute.
void refuse_variants(JsonReader& r) {
  constexpr std::array<std::pair<std::string_view, bool>, 3> kVariants{
      {{"scale_attn_weights", true},
       {"scale_attn_by_inverse_layer_idx", false},
       {"add_cross_attention", false}}};
  for (const auto& [key, supported] : kVariants) {
    bool value = supported;
    if (r.optional(key, value) && value != supported) {
      r.problem(key, supported ? "true" : "false", value ? "true" : "false",
                "this variant of GPT-2 is not supported");
    }
  }
  // Both names are the tanh form; "gelu" is the erf form, another function.
  static constexpr std::array<std::string_view, 2> kGelu{"gelu_new", "gelu_pytorch_tanh"};
  std::string activation;
  r.optional_one_of("activation_function", kGelu, activation);
}

void read_gpt2(JsonReader& r, ModelSpec& spec) {
  spec.family = Family::gpt2;
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
  refuse_variants(r);
  spec.default_seq_len = std::max<std::int64_t>(spec.positions, 1);
  spec.default_global_batch =
      std::clamp<std::int64_t>(kTokensPerStep / spec.default_seq_len, 1, 512);
}

}  // namespace

ModelSpec read_hugging_face(JsonReader& reader, const std::string& name) {
  static constexpr std::array<std::string_view, 1> kSupported{"gpt2"};
  ModelSpec spec;
  spec.name = name;
  spec.source = "Hugging Face config.json";
  std::string type;
  if (reader.one_of("model_type", kSupported, type)) read_gpt2(reader, spec);
  reader.ignore_unknown();
  return spec;
}

}  // namespace models
