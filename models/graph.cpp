#include "models/graph.hpp"

#include <functional>
#include <queue>

#include "core/check.hpp"

namespace models {

using Vertex = OperatorGraph::vertex_descriptor;

std::vector<Vertex> topological_order(const Segment& segment) {
  const OperatorGraph& graph = segment.graph;
  const std::size_t count = boost::num_vertices(graph);
  std::vector<std::size_t> waiting(count);
  std::priority_queue<Vertex, std::vector<Vertex>, std::greater<>> ready;
  for (Vertex v = 0; v < count; ++v) {
    waiting[v] = boost::in_degree(v, graph);
    if (waiting[v] == 0) ready.push(v);
  }
  std::vector<Vertex> order;
  order.reserve(count);
  while (!ready.empty()) {
    const Vertex v = ready.top();
    ready.pop();
    order.push_back(v);
    const auto [first, last] = boost::out_edges(v, graph);
    for (auto edge = first; edge != last; ++edge) {
      const Vertex next = boost::target(*edge, graph);
      if (--waiting[next] == 0) ready.push(next);
    }
  }
  PLANNER_CHECK(order.size() == count, "an operator graph has no cycle");
  return order;
}

std::int64_t ModelGraph::boundary_elements(std::int64_t layer) const {
  const auto layers = static_cast<std::int64_t>(layer_template.size());
  PLANNER_CHECK(layer >= 0 && layer <= layers);
  const Segment& reader =
      layer == layers ? epilogue
                      : templates.at(static_cast<std::size_t>(
                            layer_template[static_cast<std::size_t>(layer)]));
  // A part of a cut graph may not read the model's input.
  const Segment& read = reader.input < 0 ? prologue : reader;
  return read.tensors.at(static_cast<std::size_t>(read.input)).per_sample;
}

void for_each_segment(const ModelGraph& graph, const std::function<void(const Segment&)>& visit) {
  visit(graph.prologue);
  for (const int index : graph.layer_template)
    visit(graph.templates[static_cast<std::size_t>(index)]);
  visit(graph.epilogue);
}

namespace {

// Who writes the tensor that the next segment reads: none before the first operator.
struct Boundary {
  bool written = false;
  Vertex vertex = 0;
  TensorIndex tensor = kNoTensor;
};

void join(OperatorGraph& whole, const Boundary& before, Vertex reader) {
  if (before.written)
    boost::add_edge(before.vertex, reader, TensorEdge{before.tensor}, whole);
}

// Appends a copy of the segment, joined to what wrote its input; returns what writes its output.
Boundary append(OperatorGraph& whole, const Segment& segment, const Boundary& before) {
  const OperatorGraph& part = segment.graph;
  const Vertex base = boost::num_vertices(whole);
  Boundary after = segment.output == segment.input ? before : Boundary{};
  for (Vertex v = 0; v < boost::num_vertices(part); ++v) {
    const Operator& op = part[v];
    boost::add_vertex(op, whole);
    for (const TensorIndex input : op.inputs)
      if (input == segment.input) join(whole, before, base + v);
    for (const TensorIndex output : op.outputs)
      if (output == segment.output) after = {true, base + v, output};
  }
  const auto [first, last] = boost::edges(part);
  for (auto edge = first; edge != last; ++edge) {
    boost::add_edge(base + boost::source(*edge, part), base + boost::target(*edge, part),
                    part[*edge], whole);
  }
  return after;
}

std::int64_t count_parameters(const Segment& segment, bool with_adapters) {
  std::int64_t total = 0;
  for (const Parameter& p : segment.parameters) {
    if (!p.tied_to.empty() || p.mtp || (p.adapter && !with_adapters)) continue;
    total += p.unsharded_elements;
  }
  return total;
}

// passes(operator): how often its forward FLOPs count.
core::Flops count_gemm_flops(const Segment& segment, double (*passes)(const Operator&)) {
  core::Flops total{};
  const auto [first, last] = boost::vertices(segment.graph);
  for (auto v = first; v != last; ++v) {
    const Operator& op = segment.graph[*v];
    if (op.is_gemm) total += passes(op) * op.flops_forward;
  }
  return total;
}

core::Flops count_gemm_flops(const ModelGraph& graph, double (*passes)(const Operator&)) {
  core::Flops total{};
  for_each_segment(graph,
                   [&](const Segment& segment) { total += count_gemm_flops(segment, passes); });
  return total;
}

const Segment& last_layer(const ModelGraph& graph) {
  return graph.templates.at(static_cast<std::size_t>(graph.layer_template.back()));
}

double once(const Operator&) { return 1; }
double trained(const Operator& op) {
  const bool product = ops::schema(op.kind).gradient == ops::Gradient::product;  // has a weight
  const bool frozen =
      product && !op.parameters.empty() && op.flops_weight_gradient.value() == 0;
  return frozen ? 2 : 3;
}

double masked(const Operator& op) { return op.causal && op.kind == OpKind::attention ? 0.5 : 0; }
double masked_trained(const Operator& op) { return masked(op) * trained(op); }

}  // namespace

double reach(const Operator& op) {
  const auto keys = static_cast<double>(op.keys);
  if (op.window_keys > 0 && op.window_keys < op.keys) {
    const auto window = static_cast<double>(op.window_keys);
    return window * (2 * keys - window) / keys;
  }
  if (op.chunk_keys > 0 && op.chunk_keys < op.keys) {
    const std::int64_t whole = op.keys / op.chunk_keys, rest = op.keys % op.chunk_keys;
    return static_cast<double>(whole * op.chunk_keys * op.chunk_keys + rest * rest) / keys;
  }
  return keys;
}

OperatorGraph expand(const ModelGraph& graph) {
  OperatorGraph whole;
  Boundary boundary;
  for_each_segment(graph,
                   [&](const Segment& segment) { boundary = append(whole, segment, boundary); });
  return whole;
}

std::int64_t parameter_count(const ModelGraph& graph, bool with_adapters) {
  std::int64_t total = 0;
  for_each_segment(graph, [&](const Segment& segment) {
    total += count_parameters(segment, with_adapters);
  });
  return total;
}

std::int64_t mtp_parameter_count(const ModelGraph& graph) {
  const ModelSpec& spec = graph.spec;
  if (spec.mtp_layers == 0) return 0;
  const Variants& v = spec.variants;
  const std::int64_t h = spec.hidden;
  const std::int64_t norm = v.norm == Norm::layer_norm && v.norm_bias ? 2 * h : h;
  return spec.mtp_layers * (3 * norm + 2 * h * h + count_parameters(last_layer(graph), false));
}

core::Flops mtp_step_gemm_flops(const ModelGraph& graph) {
  const ModelSpec& spec = graph.spec;
  if (spec.mtp_layers == 0) return {};
  const auto h = static_cast<double>(spec.hidden);
  const double projection = 2 * 2 * h * h * static_cast<double>(graph.options.seq_len);
  return static_cast<double>(spec.mtp_layers) *
         (core::Flops(3 * projection) + count_gemm_flops(last_layer(graph), trained) +
          count_gemm_flops(graph.epilogue, trained));
}

core::Flops forward_gemm_flops(const ModelGraph& graph) { return count_gemm_flops(graph, once); }

core::Flops step_gemm_flops(const ModelGraph& graph) {
  return count_gemm_flops(graph, graph.options.inference ? once : trained);
}

core::Flops masked_step_flops(const ModelGraph& graph) {
  return count_gemm_flops(graph, graph.options.inference ? masked : masked_trained);
}

}  // namespace models
