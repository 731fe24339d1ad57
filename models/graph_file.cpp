#include "models/graph_file.hpp"

#include <array>

namespace models {

using core::IntRange;
using core::Json;
using core::JsonReader;

namespace {

using Kind = OperatorSpec::Kind;

constexpr std::array kLossValues{Loss::cross_entropy, Loss::squared_error};
constexpr IntRange kSizes{1, kMaxWidth};

void read_operator(JsonReader& r, OperatorSpec& op) {
  r.required("name", op.name);
  r.required("inputs", op.inputs);
  if (!r.named("kind", kOperatorKinds, op.kind)) return;
  switch (op.kind) {
    case Kind::convolution:
      r.required("channels", op.width, kSizes);
      r.required("kernel", op.kernel, kSizes);
      r.optional("stride", op.stride, kSizes);
      r.optional("padding", op.padding, IntRange{0, kMaxWidth});
      r.optional("groups", op.groups, kSizes);
      r.optional("bias", op.bias);
      break;
    case Kind::linear:
      r.required("features", op.width, kSizes);
      r.optional("bias", op.bias);
      break;
    case Kind::max_pool:
    case Kind::average_pool:
      if (r.required("kernel", op.kernel, kSizes)) op.stride = op.kernel;
      r.optional("stride", op.stride, kSizes);
      r.optional("padding", op.padding, IntRange{0, kMaxWidth});
      break;
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
    out.set("kernel", op.kernel).set("stride", op.stride).set("padding", op.padding);
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
