#include "models/spec_file.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

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
                                       Activation::gelu_tanh, Activation::gelu_erf,
                                       Activation::relu_squared};
constexpr std::array kNormValues{Norm::layer_norm, Norm::rms_norm};
constexpr std::array kPositionValues{Positions::learned, Positions::rotary, Positions::alibi,
                                     Positions::none};
constexpr std::array kFfnValues{Ffn::gelu, Ffn::swiglu, Ffn::geglu, Ffn::clamped_swiglu};
constexpr std::array kResidualValues{Residual::pre, Residual::parallel, Residual::post,
                                     Residual::post_branch, Residual::sandwich};
constexpr std::array kQkNormValues{QkNorm::none, QkNorm::heads, QkNorm::plain, QkNorm::width};
constexpr std::array kScoringValues{Scoring::softmax, Scoring::sigmoid};
constexpr std::array kLossValues{Loss::cross_entropy, Loss::squared_error};
constexpr IntRange kWidthRange{1, kMaxWidth};

enum class Whose : std::uint8_t { layer, model };

// The fields of Variants, for reading and writing: visit(whose, key, member, limits or names). A
// kind of layers may state those of a layer.
template <class Visit>
void for_each_variant(Visit visit) {
  visit(Whose::layer, "norm", &Variants::norm, kNormValues);
  visit(Whose::layer, "position_kind", &Variants::position_kind, kPositionValues);
  visit(Whose::layer, "ffn", &Variants::ffn, kFfnValues);
  visit(Whose::layer, "residual", &Variants::residual, kResidualValues);
  visit(Whose::layer, "qkv_bias", &Variants::qkv_bias);
  visit(Whose::layer, "output_bias", &Variants::output_bias);
  visit(Whose::layer, "ffn_bias", &Variants::ffn_bias);
  visit(Whose::layer, "norm_bias", &Variants::norm_bias);
  visit(Whose::layer, "causal", &Variants::causal);
  visit(Whose::model, "embedding_norm", &Variants::embedding_norm);
  visit(Whose::model, "pooler", &Variants::pooler);
  visit(Whose::model, "token_types", &Variants::token_types, IntRange{0, kMaxWidth});
  visit(Whose::layer, "qk_norm", &Variants::qk_norm, kQkNormValues);
  visit(Whose::model, "token_features", &Variants::token_features, IntRange{0, kMaxWidth});
  visit(Whose::model, "decoder_hidden", &Variants::decoder_hidden, IntRange{0, kMaxWidth});
  visit(Whose::layer, "rotary_fraction", &Variants::rotary_fraction, core::positive());
  visit(Whose::layer, "rotary_base", &Variants::rotary_base, core::positive());
  visit(Whose::layer, "experts", &Variants::experts, IntRange{0, kMaxExperts});
  visit(Whose::layer, "experts_per_token", &Variants::experts_per_token, IntRange{0, kMaxExperts});
  visit(Whose::layer, "window", &Variants::window, IntRange{0, kMaxWidth});
  visit(Whose::layer, "chunk", &Variants::chunk, IntRange{0, kMaxWidth});
  visit(Whose::layer, "attention_soft_cap", &Variants::attention_soft_cap, core::positive());
  visit(Whose::layer, "score_scale", &Variants::score_scale, core::positive());
  visit(Whose::layer, "sinks", &Variants::sinks);
  visit(Whose::layer, "kv_rank", &Variants::kv_rank, IntRange{0, kMaxWidth});
  visit(Whose::layer, "q_rank", &Variants::q_rank, IntRange{0, kMaxWidth});
  visit(Whose::layer, "rope_dim", &Variants::rope_dim, IntRange{0, kMaxWidth});
  visit(Whose::layer, "value_dim", &Variants::value_dim, IntRange{0, kMaxWidth});
  visit(Whose::model, "head_bias", &Variants::head_bias);
  visit(Whose::layer, "shared_norm", &Variants::shared_norm);
  visit(Whose::model, "norm_offset", &Variants::norm_offset);
  visit(Whose::model, "embedding_scale", &Variants::embedding_scale, core::positive());
  visit(Whose::layer, "residual_scale", &Variants::residual_scale, core::positive());
  visit(Whose::model, "logit_scale", &Variants::logit_scale, core::positive());
  visit(Whose::model, "logit_soft_cap", &Variants::logit_soft_cap, core::positive());
  visit(Whose::layer, "scoring", &Variants::scoring, kScoringValues);
  visit(Whose::layer, "normalised_gates", &Variants::normalised_gates);
  visit(Whose::layer, "gate_scale", &Variants::gate_scale, core::positive());
  visit(Whose::layer, "expert_groups", &Variants::expert_groups, IntRange{0, kMaxExperts});
  visit(Whose::layer, "groups_per_token", &Variants::groups_per_token, IntRange{0, kMaxExperts});
  visit(Whose::layer, "gated_inputs", &Variants::gated_inputs);
  visit(Whose::layer, "router_bias", &Variants::router_bias);
  visit(Whose::layer, "expert_bias", &Variants::expert_bias);
  visit(Whose::layer, "shared_ffn", &Variants::shared_ffn, IntRange{0, kMaxWidth});
  visit(Whose::layer, "shared_gate", &Variants::shared_gate);
}

// Earlier files say true, of a norm of each head, or false.
bool reads_earlier_qk_norm(JsonReader& r, Variants& v) {
  Json said;
  if (!r.has("qk_norm") || !r.optional("qk_norm", said) || !said.is_bool()) return false;
  v.qk_norm = said.as_bool() ? QkNorm::heads : QkNorm::none;
  return true;
}

void read_variants(JsonReader& r, Variants& v, bool of_kind) {
  const bool earlier = reads_earlier_qk_norm(r, v);
  for_each_variant([&](Whose whose, const char* key, auto member, const auto&... limits) {
    if (of_kind && whose == Whose::model) return;
    if (earlier && std::string_view(key) == "qk_norm") return;
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(v.*member)>>)
      r.optional_named(key, limits..., v.*member);
    else
      r.optional(key, v.*member, limits...);
  });
}

// Kinds are read as the model's own layer, but for what each says otherwise.
void read_kinds(JsonReader& r, ModelSpec& spec) {
  for (JsonReader& kind : r.optional_objects("kinds")) {
    spec.kinds.push_back({"", spec.ffn_hidden, spec.variants});
    LayerKind& read = spec.kinds.back();
    kind.required("name", read.name);
    kind.optional("ffn_hidden", read.ffn_hidden, kWidthRange);
    read_variants(kind, read.variants, true);
    kind.allow_only_known();
  }
  for (JsonReader& run : r.optional_objects("runs")) {
    std::vector<std::string> names;
    spec.runs.emplace_back();
    run.required("kinds", names);
    run.optional("times", spec.runs.back().times, IntRange{1, kMaxLayers});
    for (const std::string& name : names) {
      const auto kind = std::ranges::find(spec.kinds, name, &LayerKind::name);
      spec.runs.back().kinds.push_back(static_cast<int>(kind - spec.kinds.begin()));
      if (kind == spec.kinds.end())
        run.problem("kinds", "names of kinds", "\"" + name + "\"", "state it under kinds");
    }
    run.allow_only_known();
  }
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
  spec.variants = variants_of(spec.family);
  spec.activation = activation_of(spec.family);
  r.optional_named("activation", kActivationValues, spec.activation);
  read_variants(r, spec.variants, false);
  read_kinds(r, spec);
  r.optional("mtp_layers", spec.mtp_layers, IntRange{0, kMaxMtpLayers});
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
                                   const std::string& name, const std::string& like) {
  const core::Result<Json> json = core::parse_json(text, source_name);
  if (!json) return json.problems();
  Problems problems;
  JsonReader reader(*json, source_name, "", problems);
  ModelSpec spec;
  if (reader.has("model_type")) {
    spec = read_hugging_face(reader, name, like);
  } else if (!like.empty()) {
    reader.problem("model_type", "a Hugging Face config.json, for --model-like", "no such key");
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

// What differs from `usual`.
static void write_variants(const Variants& v, const Variants& usual, Json& out) {
  for_each_variant([&](Whose, const char* key, auto member, const auto&...) {
    if (v.*member == usual.*member) return;
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(v.*member)>>)
      out.set(key, name(v.*member));
    else
      out.set(key, v.*member);
  });
}

static void write_kinds(const ModelSpec& spec, Json& out) {
  Json kinds = Json::array(), runs = Json::array();
  for (const LayerKind& kind : spec.kinds) {
    Json one = Json::object({{"name", kind.name}});
    if (kind.ffn_hidden != spec.ffn_hidden) one.set("ffn_hidden", kind.ffn_hidden);
    write_variants(kind.variants, spec.variants, one);
    kinds.push_back(std::move(one));
  }
  for (const LayerRun& run : spec.runs) {
    std::vector<std::string> names;
    for (const int kind : run.kinds)
      names.push_back(spec.kinds[static_cast<std::size_t>(kind)].name);
    runs.push_back(Json::object({{"kinds", Json::array_of(names)}, {"times", run.times}}));
  }
  out.set("kinds", std::move(kinds)).set("runs", std::move(runs));
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
    if (spec.activation != activation_of(spec.family))
      out.set("activation", name(spec.activation));
    write_variants(spec.variants, variants_of(spec.family), out);
    if (!spec.kinds.empty()) write_kinds(spec, out);
    if (spec.mtp_layers > 0) out.set("mtp_layers", spec.mtp_layers);
  } else if (spec.family == Family::graph) {
    write_graph(spec, out);
  } else {
    out.set("widths", Json::array_of(spec.widths));
    out.set("activation", name(spec.activation)).set("loss", name(spec.loss));
  }
  if (spec.dropout > 0) out.set("dropout", spec.dropout);
  out.set("default_seq_len", spec.default_seq_len);
  out.set("default_global_batch", spec.default_global_batch);
  return core::dump(out, indent);
}

}  // namespace models
