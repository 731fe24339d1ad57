#include "models/graph_file.hpp"

#include <fmt/format.h>

#include <array>

namespace models {

using core::IntRange;
using core::Json;
using core::JsonReader;

namespace {

using Kind = OperatorSpec::Kind;

constexpr std::array kLossValues{Loss::cross_entropy, Loss::squared_error};
constexpr IntRange kSizes{1, kMaxWidth};
constexpr core::NumberRange kRotaryBases{1.0, kMaxRotaryBase, true};

// A number, or [height, width].
bool read_extent(JsonReader& r, std::string_view key, IntRange range, Extent& out, bool needed) {
  if (!r.has(key)) return needed && r.required(key, out.height, range);
  Json value;
  r.required(key, value);
  if (!value.is_array()) {
    std::int64_t both = 0;
    if (!r.required(key, both, range)) return false;
    out = both;
    return true;
  }
  std::vector<std::int64_t> sizes;
  if (!r.required(key, sizes, range)) return false;
  if (sizes.size() != 2) {
    r.problem(key, "a number, or [height, width]", fmt::format("an array of {}", sizes.size()));
    return false;
  }
  out = {sizes[0], sizes[1]};
  return true;
}

void read_window(JsonReader& r, OperatorSpec& op) {
  const bool pool = op.kind != Kind::convolution;
  if (read_extent(r, "kernel", kSizes, op.kernel, true) && pool) op.stride = op.kernel;
  read_extent(r, "stride", kSizes, op.stride, false);
  read_extent(r, "padding", IntRange{0, kMaxWidth}, op.padding, false);
}

Json extent_json(Extent e) {
  return e.height == e.width ? Json(e.height) : Json::array({e.height, e.width});
}

void read_operator(JsonReader& r, OperatorSpec& op) {
  r.required("name", op.name);
  r.required("inputs", op.inputs);
  if (!r.named("kind", kOperatorKinds, op.kind)) return;
  switch (op.kind) {
    case Kind::convolution:
      r.required("channels", op.width, kSizes);
      read_window(r, op);
      r.optional("groups", op.groups, kSizes);
      r.optional("bias", op.bias);
      break;
    case Kind::linear:
      r.required("features", op.width, kSizes);
      r.optional("bias", op.bias);
      break;
    case Kind::embedding:
      r.required("features", op.width, kSizes);
      r.optional("positions", op.positions);
      break;
    case Kind::attention:
      r.required("heads", op.heads, kSizes);
      r.optional("kv_heads", op.kv_heads, kSizes);
      r.optional("qk_norm", op.qk_norm);
      r.optional("rotary_base", op.rotary_base, kRotaryBases);
      r.optional("causal", op.causal);
      break;
    case Kind::max_pool:
    case Kind::average_pool: read_window(r, op); break;
    case Kind::local_response_norm: r.optional("window", op.window, kSizes); break;
    default: break;
  }
  r.allow_only_known();
}

Json operator_json(const OperatorSpec& op) {
  Json out = Json::object({{"name", op.name}, {"kind", name(op.kind)}});
  out.set("inputs", Json::array_of(op.inputs));
  const bool convolution = op.kind == Kind::convolution;
  const bool pool = op.kind == Kind::max_pool || op.kind == Kind::average_pool;
  if (convolution) out.set("channels", op.width);
  if (op.kind == Kind::linear || op.kind == Kind::embedding) out.set("features", op.width);
  if (op.kind == Kind::embedding && op.positions) out.set("positions", true);
  if (op.kind == Kind::attention) {
    out.set("heads", op.heads);
    if (op.kv_heads > 0) out.set("kv_heads", op.kv_heads);
    out.set("causal", op.causal);
    if (op.qk_norm) out.set("qk_norm", true);
    if (op.rotary_base > 0) out.set("rotary_base", op.rotary_base);
  }
  if (convolution || pool)
    out.set("kernel", extent_json(op.kernel))
        .set("stride", extent_json(op.stride))
        .set("padding", extent_json(op.padding));
  if (convolution && op.groups != 1) out.set("groups", op.groups);
  if (op.kind == Kind::local_response_norm) out.set("window", op.window);
  if ((convolution || op.kind == Kind::linear) && !op.bias) out.set("bias", false);
  return out;
}

}  // namespace

// One input of features or of an image, or `inputs` of tokens and their vocabulary.
static bool read_inputs(JsonReader& r, GraphSpec& graph) {
  if (!r.has("inputs")) {
    core::JsonReader input = r.object("input");
    const bool read = input.required("name", graph.input);
    const bool shaped = input.required("shape", graph.input_shape, kSizes);
    input.allow_only_known();
    return read && shaped;
  }
  bool read = r.required("vocabulary", graph.vocabulary, kSizes);
  for (JsonReader& one : r.objects("inputs")) {
    TokenInput& input = graph.token_inputs.emplace_back();
    read = one.required("name", input.name) && read;
    read = one.required("tokens", input.tokens, kSizes) && read;
    one.allow_only_known();
  }
  return read && !graph.token_inputs.empty();
}

void read_graph(JsonReader& r, ModelSpec& spec) {
  bool read = read_inputs(r, spec.graph);
  spec.vocab = spec.graph.vocabulary;
  read = r.named("loss", kLossValues, spec.loss) && read;
  std::vector<JsonReader> readers = r.objects("operators");
  for (JsonReader& one : readers) read_operator(one, spec.graph.operators.emplace_back());
  if (!read) return;
  const GraphAnalysis analysis = analyse(spec.graph);
  for (const GraphIssue& issue : analysis.issues) {
    const bool whole = issue.at < 0;
    JsonReader& at = whole ? r : readers[static_cast<std::size_t>(issue.at)];
    at.problem(issue.field, issue.expected, issue.found, issue.fix);
  }
  spec.layers = std::ssize(analysis.layers);
}

void write_graph(const ModelSpec& spec, Json& out) {
  if (spec.graph.token_inputs.empty()) {
    out.set("input", Json::object({{"name", spec.graph.input},
                                   {"shape", Json::array_of(spec.graph.input_shape)}}));
  } else {
    Json inputs = Json::array();
    for (const TokenInput& input : spec.graph.token_inputs)
      inputs.push_back(Json::object({{"name", input.name}, {"tokens", input.tokens}}));
    out.set("inputs", std::move(inputs)).set("vocabulary", spec.graph.vocabulary);
  }
  Json operators = Json::array();
  for (const OperatorSpec& op : spec.graph.operators) operators.push_back(operator_json(op));
  out.set("operators", std::move(operators)).set("loss", name(spec.loss));
}

}  // namespace models
