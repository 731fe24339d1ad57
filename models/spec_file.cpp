#include "models/spec_file.hpp"

#include <array>

#include "core/json_reader.hpp"
#include "models/graph_file.hpp"
#include "models/hugging_face.hpp"

namespace models {

using core::IntRange;
using core::Json;
using core::JsonReader;
using core::Problems;

namespace {

constexpr std::array kFamilyValues{Family::gpt2,  Family::opt,   Family::bloom,   Family::llama,
                                   Family::qwen2, Family::qwen3, Family::mixtral, Family::mpt,
                                   Family::gpt_neox, Family::bert, Family::uce, Family::chain,
                                   Family::graph};
constexpr std::array kActivationValues{Activation::identity, Activation::relu, Activation::tanh,
                                       Activation::gelu_tanh, Activation::gelu_erf};
constexpr std::array kNormValues{Norm::layer_norm, Norm::rms_norm};
constexpr std::array kPositionValues{Positions::learned, Positions::rotary, Positions::alibi,
                                     Positions::none};
constexpr std::array kFfnValues{Ffn::gelu, Ffn::swiglu};
constexpr std::array kResidualValues{Residual::pre, Residual::parallel, Residual::post};
constexpr std::array kLossValues{Loss::cross_entropy, Loss::squared_error};
constexpr IntRange kWidthRange{1, kMaxWidth};

// A family's blocks, but for what the file says otherwise.
void read_variants(JsonReader& r, ModelSpec& spec) {
  Variants& v = spec.variants = variants_of(spec.family);
  spec.activation = activation_of(spec.family);
  r.optional_named("activation", kActivationValues, spec.activation);
  r.optional_named("norm", kNormValues, v.norm);
  r.optional_named("position_kind", kPositionValues, v.position_kind);
  r.optional_named("ffn", kFfnValues, v.ffn);
  r.optional_named("residual", kResidualValues, v.residual);
  r.optional("qkv_bias", v.qkv_bias);
  r.optional("output_bias", v.output_bias);
  r.optional("ffn_bias", v.ffn_bias);
  r.optional("norm_bias", v.norm_bias);
  r.optional("causal", v.causal);
  r.optional("embedding_norm", v.embedding_norm);
  r.optional("pooler", v.pooler);
  r.optional("token_types", v.token_types, IntRange{0, kMaxWidth});
  r.optional("qk_norm", v.qk_norm);
  r.optional("token_features", v.token_features, IntRange{0, kMaxWidth});
  r.optional("decoder_hidden", v.decoder_hidden, IntRange{0, kMaxWidth});
  r.optional("rotary_fraction", v.rotary_fraction, core::positive());
  r.optional("experts", v.experts, IntRange{0, kMaxExperts});
  r.optional("experts_per_token", v.experts_per_token, IntRange{0, kMaxExperts});
}

void read_transformer(JsonReader& r, ModelSpec& spec) {
  r.required("layers", spec.layers, IntRange{1, kMaxLayers});
  r.required("hidden", spec.hidden, kWidthRange);
  r.required("heads", spec.heads, kWidthRange);
  spec.kv_heads = spec.heads;
  spec.ffn_hidden = 4 * spec.hidden;
  r.optional("kv_heads", spec.kv_heads, kWidthRange);
  r.optional("head_dim", spec.head_dim, IntRange{0, kMaxWidth});
  r.optional("ffn_hidden", spec.ffn_hidden, kWidthRange);
  r.required("positions", spec.positions, kWidthRange);
  r.optional("layer_norm_epsilon", spec.layer_norm_epsilon, core::positive());
  read_variants(r, spec);
  spec.tied_embeddings = spec.variants.token_features == 0;
  if (spec.variants.token_features > 0) return;  // no vocabulary
  r.required("vocab", spec.vocab, kWidthRange);
  r.optional("tied_embeddings", spec.tied_embeddings);
}

void read_chain(JsonReader& r, ModelSpec& spec) {
  r.required("widths", spec.widths, kWidthRange);
  r.named("activation", kActivationValues, spec.activation);
  r.named("loss", kLossValues, spec.loss);
  if (!spec.widths.empty()) spec.layers = static_cast<std::int64_t>(spec.widths.size()) - 1;
}

}  // namespace

static ModelSpec read_own(JsonReader& r) {
  ModelSpec spec;
  static constexpr std::array<std::string_view, 1> kSchemas{"model/1"};
  std::string schema;
  r.one_of("schema", kSchemas, schema);
  r.required("name", spec.name);
  r.optional("source", spec.source);
  r.optional("window", spec.window, IntRange{0, kMaxWidth});
  r.optional("dropout", spec.dropout, core::NumberRange{0, 1, false});
  r.optional("default_seq_len", spec.default_seq_len, kWidthRange);
  r.optional("default_global_batch", spec.default_global_batch, kWidthRange);
  if (r.named("family", kFamilyValues, spec.family)) {
    if (is_transformer(spec.family)) read_transformer(r, spec);
    if (spec.family == Family::chain) read_chain(r, spec);
    if (spec.family == Family::graph) read_graph(r, spec);
    r.allow_only_known();
  }
  return spec;
}

core::Result<ModelSpec> parse_spec(std::string_view text, const std::string& source_name,
                                   const std::string& name) {
  const core::Result<Json> json = core::parse_json(text, source_name);
  if (!json) return json.problems();
  Problems problems;
  JsonReader reader(*json, source_name, "", problems);
  ModelSpec spec;
  if (reader.has("model_type")) {
    spec = read_hugging_face(reader, name);
  } else if (reader.has("schema")) {
    spec = read_own(reader);
  } else if (problems.empty()) {
    reader.problem("", "a Hugging Face config.json (\"model_type\") or a model file (\"schema\")",
                   "neither key", "a model file begins {\"schema\": \"model/1\", ...");
  }
  if (problems.empty()) problems = check_spec(spec);
  if (!problems.empty()) return problems;
  return spec;
}

// What differs from the family's own.
static void write_variants(const ModelSpec& spec, Json& out) {
  const Variants& v = spec.variants;
  const Variants usual = variants_of(spec.family);
  const auto text = [&](const char* key, auto value, auto preset) {
    if (value != preset) out.set(key, name(value));
  };
  const auto plain = [&](const char* key, auto value, auto preset) {
    if (value != preset) out.set(key, value);
  };
  text("activation", spec.activation, activation_of(spec.family));
  text("norm", v.norm, usual.norm);
  text("position_kind", v.position_kind, usual.position_kind);
  text("ffn", v.ffn, usual.ffn);
  text("residual", v.residual, usual.residual);
  plain("qkv_bias", v.qkv_bias, usual.qkv_bias);
  plain("output_bias", v.output_bias, usual.output_bias);
  plain("ffn_bias", v.ffn_bias, usual.ffn_bias);
  plain("norm_bias", v.norm_bias, usual.norm_bias);
  plain("causal", v.causal, usual.causal);
  plain("embedding_norm", v.embedding_norm, usual.embedding_norm);
  plain("pooler", v.pooler, usual.pooler);
  plain("token_types", v.token_types, usual.token_types);
  plain("qk_norm", v.qk_norm, usual.qk_norm);
  plain("token_features", v.token_features, usual.token_features);
  plain("decoder_hidden", v.decoder_hidden, usual.decoder_hidden);
  plain("rotary_fraction", v.rotary_fraction, usual.rotary_fraction);
  plain("experts", v.experts, usual.experts);
  plain("experts_per_token", v.experts_per_token, usual.experts_per_token);
}

std::string spec_to_json(const ModelSpec& spec, int indent) {
  Json out = Json::object({{"schema", "model/1"},
                           {"name", spec.name},
                           {"family", name(spec.family)},
                           {"source", spec.source}});
  if (is_transformer(spec.family)) {
    out.set("layers", spec.layers).set("hidden", spec.hidden).set("heads", spec.heads);
    out.set("kv_heads", spec.kv_heads).set("ffn_hidden", spec.ffn_hidden);
    const bool looked_up = spec.variants.token_features == 0;
    if (looked_up) out.set("vocab", spec.vocab);
    out.set("positions", spec.positions);
    if (looked_up) out.set("tied_embeddings", spec.tied_embeddings);
    out.set("layer_norm_epsilon", spec.layer_norm_epsilon);
    if (spec.head_dim > 0) out.set("head_dim", spec.head_dim);
    write_variants(spec, out);
  } else if (spec.family == Family::graph) {
    write_graph(spec, out);
  } else {
    out.set("widths", Json::array_of(spec.widths));
    out.set("activation", name(spec.activation)).set("loss", name(spec.loss));
  }
  if (spec.window > 0) out.set("window", spec.window);
  if (spec.dropout > 0) out.set("dropout", spec.dropout);
  out.set("default_seq_len", spec.default_seq_len);
  out.set("default_global_batch", spec.default_global_batch);
  return core::dump(out, indent);
}

}  // namespace models
