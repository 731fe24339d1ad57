#include "planner/strategy/graph_cut.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/check.hpp"

namespace planner {
namespace {

using models::GraphAnalysis;
using models::OperatorSpec;
using Kind = models::OperatorSpec::Kind;
using Vertex = CutGraph::vertex_descriptor;

constexpr double kFlops = 989e12, kMemory = 3.35e12, kLink = 450e9;  // see graph_cut.hpp
constexpr double kElement = 2;         // bytes: 16 bits
constexpr std::size_t kSwaps = 256;    // vertices up to which pairs are swapped

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Makers of what operator i reads, joins looked through.
std::set<int> makers(const models::GraphSpec& spec, const GraphAnalysis& a, int i) {
  std::set<int> found;
  std::vector<int> open = a.inputs[at(i)];
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    if (value != models::kModelInput && spec.operators[at(value)].kind == Kind::concat)
      open.insert(open.end(), a.inputs[at(value)].begin(), a.inputs[at(value)].end());
    else
      found.insert(value);
  }
  return found;
}

// Whether an operator is of the same run as the one that it reads.
bool goes_on(const std::set<int>& from, const std::map<int, int>& readers) {
  return from.size() == 1 && *from.begin() != models::kModelInput &&
         readers.at(*from.begin()) == 1;
}

// Seconds of an operator's three passes.
double weight_of(const models::Operator& op, std::int64_t samples) {
  const double b = static_cast<double>(samples);
  const double flops = (op.flops_forward + op.flops_input_gradient + op.flops_weight_gradient)
                           .value() * b;
  const double moved = static_cast<double>(op.elements_forward + op.elements_backward) * b +
                       3.0 * static_cast<double>(op.parameter_elements);
  return std::max(op.is_gemm ? flops / kFlops : 0.0, moved * kElement / kMemory);
}

std::map<std::string, double> times(const models::ModelGraph& graph, std::int64_t samples) {
  std::map<std::string, double> by_name;
  for (const models::Segment& layer : graph.templates)
    for (const Vertex v : models::topological_order(layer))
      by_name[layer.graph[v].name] = weight_of(layer.graph[v], samples);
  return by_name;
}

struct Score {
  double time = 0, messages = 0;
  friend auto operator<=>(const Score&, const Score&) = default;
};

Score score(const CutGraph& graph, const std::vector<int>& side) {
  Score s{makespan(graph, side), 0};
  for (Vertex v = 0; v < boost::num_vertices(graph); ++v) {
    const auto [first, last] = boost::out_edges(v, graph);
    if (std::any_of(first, last,
                    [&](auto e) { return side[boost::target(e, graph)] != side[v]; }))
      s.messages += graph[v].message;
  }
  return s;
}

bool trains(const OperatorSpec& op) {
  return op.kind == Kind::convolution || op.kind == Kind::linear || op.kind == Kind::layer_norm ||
         op.kind == Kind::batch_norm || op.kind == Kind::rms_norm;
}

// Both ranks have parameters: a rank without would have nothing to do in a backward pass.
bool uses_both(const CutGraph& graph, const std::vector<int>& side) {
  std::array<bool, 2> found{};
  for (Vertex v = 0; v < side.size(); ++v)
    if (graph[v].trains) found[static_cast<std::size_t>(side[v])] = true;
  return found[0] && found[1];
}

// All subsets but those that mirror another: the first vertex is on the first rank.
std::vector<int> try_all(const CutGraph& graph) {
  const std::size_t n = boost::num_vertices(graph);
  std::vector<int> best;
  Score least;
  for (std::uint32_t subset = 1; subset < (1u << (n - 1)); ++subset) {
    std::vector<int> side(n, 0);
    for (std::size_t v = 1; v < n; ++v) side[v] = static_cast<int>((subset >> (n - 1 - v)) & 1u);
    if (!uses_both(graph, side)) continue;
    const Score s = score(graph, side);
    if (best.empty() || s < least) best = side, least = s;
  }
  return best;
}

// One vertex to the other rank, or two that change places, as long as the score falls.
void improve(const CutGraph& graph, std::vector<int>& side, Score& least) {
  const std::size_t n = side.size();
  const auto better = [&](std::size_t u, std::size_t v) {
    side[u] ^= 1;
    if (v != u) side[v] ^= 1;
    const Score s = uses_both(graph, side) ? score(graph, side) : least;
    if (s < least) {
      least = s;
      return true;
    }
    side[u] ^= 1;
    if (v != u) side[v] ^= 1;
    return false;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t u = 0; u < n; ++u) {
      moved |= better(u, u);
      for (std::size_t v = u + 1; v < n && n <= kSwaps; ++v)
        if (side[u] != side[v]) moved |= better(u, v);
    }
  }
}

std::vector<int> search_locally(const CutGraph& graph) {
  const std::size_t n = boost::num_vertices(graph);
  std::vector<int> best;
  Score least;
  for (std::size_t prefix = 1; prefix < n; ++prefix) {
    std::vector<int> side(n, 0);
    std::fill(side.begin() + static_cast<std::ptrdiff_t>(prefix), side.end(), 1);
    if (!uses_both(graph, side)) continue;
    const Score s = score(graph, side);
    if (best.empty() || s < least) best = side, least = s;
  }
  improve(graph, best, least);
  return best;
}

}  // namespace

CutGraph cut_graph(const models::ModelGraph& graph, std::int64_t micro_batch) {
  const models::GraphSpec& spec = graph.spec.graph;
  const GraphAnalysis a = models::analyse(spec);
  PLANNER_CHECK(a.issues.empty(), "check_spec refuses such a graph");
  const std::map<std::string, double> seconds = times(graph, micro_batch);
  std::map<int, std::set<int>> made_by;
  std::map<int, int> readers;
  for (const int i : a.order) {
    if (spec.operators[at(i)].kind == Kind::concat && i != a.output) continue;
    made_by[i] = makers(spec, a, i);
    for (const int value : made_by[i]) ++readers[value];
  }
  CutGraph cut;
  std::map<int, Vertex> vertex_of;     // by operator
  for (const int i : a.order) {
    if (!made_by.contains(i)) continue;
    const std::set<int>& from = made_by[i];
    const bool same = goes_on(from, readers);
    const Vertex v = same ? vertex_of[*from.begin()] : boost::add_vertex(cut);
    vertex_of[i] = v;
    cut[v].operators.push_back(i);
    cut[v].trains = cut[v].trains || trains(spec.operators[at(i)]);
    const auto time = seconds.find(spec.operators[at(i)].name);
    if (time != seconds.end()) cut[v].time += time->second;
    cut[v].message = 2 * kElement * static_cast<double>(models::elements_of(a.shapes[at(i)])) *
                     static_cast<double>(micro_batch) / kLink;
    if (same) continue;
    for (const int value : from)
      if (value != models::kModelInput) boost::add_edge(vertex_of[value], v, cut);
  }
  return cut;
}

double makespan(const CutGraph& graph, const std::vector<int>& side) {
  std::array<double, 2> busy{}, wire{};  // ranks; direction from each rank
  std::vector<double> done(boost::num_vertices(graph)), arrived(done.size());
  for (Vertex v = 0; v < done.size(); ++v) {
    const auto own = static_cast<std::size_t>(side[v]);
    double start = busy[own];
    const auto [in, in_end] = boost::in_edges(v, graph);
    for (auto e = in; e != in_end; ++e) {
      const Vertex from = boost::source(*e, graph);
      start = std::max(start, side[from] == side[v] ? done[from] : arrived[from]);
    }
    busy[own] = done[v] = start + graph[v].time;
    const auto [out, out_end] = boost::out_edges(v, graph);
    const bool crosses = std::any_of(
        out, out_end, [&](auto e) { return side[boost::target(e, graph)] != side[v]; });
    if (crosses) wire[own] = arrived[v] = std::max(wire[own], done[v]) + graph[v].message;
  }
  return std::max(busy[0], busy[1]);
}

std::vector<int> bisect(const CutGraph& graph) {
  const bool small = boost::num_vertices(graph) <= kExactVertices;
  std::vector<int> side = small ? try_all(graph) : search_locally(graph);
  PLANNER_CHECK(!side.empty(), "one run with parameters cannot be divided");
  return side;
}

std::vector<std::int64_t> cut_operators(const models::ModelGraph& graph,
                                        std::int64_t micro_batch) {
  const CutGraph cut = cut_graph(graph, micro_batch);
  const std::vector<int> side = bisect(cut);
  // Joins and flattens belong to their readers; their entry is the first rank's.
  std::vector<std::int64_t> parts(graph.spec.graph.operators.size(), 1);
  for (Vertex v = 0; v < side.size(); ++v)
    for (const int i : cut[v].operators) parts[at(i)] = side[v] + 1;
  return parts;
}

core::Problems cut_problems(const models::ModelSpec& spec,
                            const std::vector<std::int64_t>& parts) {
  const std::size_t count = spec.graph.operators.size();
  if (parts.size() != count)
    return {{"parts", std::to_string(count) + " ranks, one for each operator",
             std::to_string(parts.size()), "leave it out for the best division"}};
  for (const std::int64_t rank : parts)
    if (rank != 1 && rank != 2)
      return {{"parts", "ranks 1 and 2", std::to_string(rank), ""}};
  const GraphAnalysis a = models::analyse(spec.graph);
  std::array<bool, 2> used{};
  for (const int i : a.order)
    if (trains(spec.graph.operators[at(i)]))
      used[at(static_cast<int>(parts[at(i)]) - 1)] = true;
  if (used[0] && used[1]) return {};
  return {{"parts", "operators with parameters on both ranks", "all on one", ""}};
}

bool can_cut(const models::ModelSpec& spec) {
  if (!spec.graph.token_inputs.empty()) return false;  // both parts would look tokens up
  const GraphAnalysis a = models::analyse(spec.graph);
  std::map<int, int> readers, run_of;  // by operator; runs are called by their first
  std::map<int, std::set<int>> made_by;
  for (const int i : a.order) {
    if (spec.graph.operators[at(i)].kind == Kind::concat && i != a.output) continue;
    made_by[i] = makers(spec.graph, a, i);
    for (const int value : made_by[i]) ++readers[value];
  }
  std::set<int> with_parameters;
  for (const int i : a.order) {
    if (!made_by.contains(i)) continue;
    run_of[i] = goes_on(made_by[i], readers) ? run_of[*made_by[i].begin()] : i;
    if (trains(spec.graph.operators[at(i)])) with_parameters.insert(run_of[i]);
  }
  return with_parameters.size() >= 2;
}

}  // namespace planner
