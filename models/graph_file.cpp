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
  if (op.kind == Kind::linear) out.set("features", op.width);
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

void read_graph(JsonReader& r, ModelSpec& spec) {
  core::JsonReader input = r.object("input");
  bool read = input.required("name", spec.graph.input);
  read = input.required("shape", spec.graph.input_shape, kSizes) && read;
  input.allow_only_known();
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
  out.set("input", Json::object({{"name", spec.graph.input},
                                 {"shape", Json::array_of(spec.graph.input_shape)}}));
  Json operators = Json::array();
  for (const OperatorSpec& op : spec.graph.operators) operators.push_back(operator_json(op));
  out.set("operators", std::move(operators)).set("loss", name(spec.loss));
}

}  // namespace models
