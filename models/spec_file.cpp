#include "models/spec_file.hpp"

#include <array>

#include "core/json_reader.hpp"
#include "models/hugging_face.hpp"

namespace models {

using core::IntRange;
using core::Json;
using core::JsonReader;
using core::Problems;

namespace {

constexpr std::array kFamilyValues{Family::gpt2, Family::chain};
constexpr std::array kActivationValues{Activation::identity, Activation::relu, Activation::tanh,
                                       Activation::gelu_tanh};
constexpr std::array kLossValues{Loss::cross_entropy, Loss::squared_error};
constexpr IntRange kWidthRange{1, kMaxWidth};

void read_gpt2(JsonReader& r, ModelSpec& spec) {
  r.required("layers", spec.layers, IntRange{1, kMaxLayers});
  r.required("hidden", spec.hidden, kWidthRange);
  r.required("heads", spec.heads, kWidthRange);
  spec.kv_heads = spec.heads;
  spec.ffn_hidden = 4 * spec.hidden;
  r.optional("kv_heads", spec.kv_heads, kWidthRange);
  r.optional("ffn_hidden", spec.ffn_hidden, kWidthRange);
  r.required("vocab", spec.vocab, kWidthRange);
  r.required("positions", spec.positions, kWidthRange);
  r.optional("tied_embeddings", spec.tied_embeddings);
  r.optional("layer_norm_epsilon", spec.layer_norm_epsilon, core::positive());
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
  r.optional("default_seq_len", spec.default_seq_len, kWidthRange);
  r.optional("default_global_batch", spec.default_global_batch, kWidthRange);
  if (r.named("family", kFamilyValues, spec.family)) {
    if (spec.family == Family::gpt2) read_gpt2(r, spec);
    if (spec.family == Family::chain) read_chain(r, spec);
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

std::string spec_to_json(const ModelSpec& spec, int indent) {
  Json out = Json::object({{"schema", "model/1"},
                           {"name", spec.name},
                           {"family", name(spec.family)},
                           {"source", spec.source}});
  if (spec.family == Family::gpt2) {
    out.set("layers", spec.layers).set("hidden", spec.hidden).set("heads", spec.heads);
    out.set("kv_heads", spec.kv_heads).set("ffn_hidden", spec.ffn_hidden);
    out.set("vocab", spec.vocab).set("positions", spec.positions);
    out.set("tied_embeddings", spec.tied_embeddings);
    out.set("layer_norm_epsilon", spec.layer_norm_epsilon);
  } else {
    out.set("widths", Json::array_of(spec.widths));
    out.set("activation", name(spec.activation)).set("loss", name(spec.loss));
  }
  out.set("default_seq_len", spec.default_seq_len);
  out.set("default_global_batch", spec.default_global_batch);
  return core::dump(out, indent);
}

}  // namespace models
