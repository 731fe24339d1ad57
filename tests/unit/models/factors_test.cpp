// The factors that a schema names against how the builders divide operators over ranks.
#include <map>
#include <set>

#include "models/graph.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"

using namespace models;

namespace {

struct Divided {
  const Segment* segment = nullptr;
  OperatorGraph::vertex_descriptor vertex{};
  const Operator& op() const { return segment->graph[vertex]; }
};

std::map<std::string, Divided> operators(const ModelGraph& graph) {
  std::map<std::string, Divided> all;
  for (const Segment* s : {&graph.prologue, &graph.templates.front(), &graph.epilogue})
    for (const auto v : topological_order(*s)) all[s->name + "." + s->graph[v].name] = {s, v};
  return all;
}

// By which factors a rank's operator is a part of the whole one.
unsigned observed(const Operator& part, const Operator& whole) {
  const ops::WorkOf work = ops::schema(part.kind).work.by;
  const bool product = work == ops::WorkOf::product || work == ops::WorkOf::expert_product;
  const bool logits = (ops::schema(part.kind).divides & ops::kVocabulary) != 0;
  unsigned factors = 0;
  if (part.rows < whole.rows) factors |= ops::kRow;
  if (product && part.groups < whole.groups) factors |= ops::kExpert;
  if (part.heads < whole.heads) return factors | ops::kHead;
  if (part.n < whole.n) factors |= logits ? ops::kVocabulary : ops::kOut;
  if (part.k < whole.k && product) factors |= ops::kIn;
  if (part.k < whole.k && work == ops::WorkOf::lookup) factors |= ops::kVocabulary;
  return factors;
}

// Whether some operator behind it sums (or takes the maximum) over the tensor ranks.
bool is_reduced(const Divided& at) {
  const OpKind kind = at.op().kind;
  if (kind == OpKind::tensor_reduce || kind == OpKind::sequence_scatter) return true;
  const auto [first, last] = boost::out_edges(at.vertex, at.segment->graph);
  return std::any_of(first, last, [&](auto edge) {
    return is_reduced({at.segment, boost::target(edge, at.segment->graph)});
  });
}

// Factors by which operators of the model are divided, each of which its schema must name.
unsigned check_factors(const ModelSpec& spec, const GraphOptions& whole, const GraphOptions& part) {
  const auto one = build_graph(spec, whole), of = build_graph(spec, part);
  if (!of.ok()) return 0;              // ranks do not divide this model
  const auto undivided = operators(*one), all = operators(*of);
  unsigned seen = 0;
  for (const auto& [name, divided] : all) {
    if (!undivided.contains(name)) continue;  // a transfer
    const Operator& op = divided.op();
    const unsigned factors = observed(op, undivided.at(name).op());
    INFO(spec.name << " " << name << ": " << factors);
    CHECK((factors & ~unsigned{ops::schema(op.kind).divides}) == 0);
    if ((factors & ops::kSums) != 0 && !op.outputs.empty()) CHECK(is_reduced(divided));
    seen |= factors;
  }
  return seen;
}

}  // namespace

TEST_CASE("operators are divided by factors that their schemas name, and sums are reduced") {
  unsigned seen = 0;
  for (const ZooEntry& entry : zoo()) {
    const ModelSpec& spec = entry.spec;
    if (spec.family == Family::chain || spec.family == Family::graph) continue;
    const GraphOptions whole{.seq_len = 64};
    for (const std::int64_t tensor : {2, 4})
      for (const bool rows : {false, true})
        seen |= check_factors(spec, whole,
                              {.seq_len = 64, .tensor = tensor, .sequence_parallel = rows});
    seen |= check_factors(spec, whole, {.seq_len = 64, .context = 2});
    if (spec.variants.experts > 0)
      seen |= check_factors(spec, whole, {.seq_len = 64, .expert = 2});
  }
  CHECK(seen == (ops::kRow | ops::kOut | ops::kIn | ops::kHead | ops::kExpert | ops::kVocabulary));
}
