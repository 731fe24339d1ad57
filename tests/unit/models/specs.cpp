#include "tests/unit/models/specs.hpp"

#include <set>

#include "core/check.hpp"

namespace models_test {

using namespace models;

ModelSpec gpt2_124m() {
  ModelSpec spec;
  spec.name = "gpt2-124m";
  spec.layers = 12;
  spec.hidden = 768;
  spec.heads = spec.kv_heads = 12;
  spec.ffn_hidden = 3072;
  spec.vocab = 50257;
  spec.positions = 1024;
  spec.default_seq_len = 1024;
  spec.default_global_batch = 512;
  return spec;
}

ModelSpec tiny_gpt2() {
  ModelSpec spec;
  spec.name = "tiny";
  spec.layers = 2;
  spec.hidden = 24;
  spec.heads = spec.kv_heads = 6;
  spec.ffn_hidden = 96;
  spec.vocab = 521;
  spec.positions = 16;
  spec.default_seq_len = 8;
  return spec;
}

ModelSpec mlp(std::vector<std::int64_t> widths, Activation activation, Loss loss) {
  ModelSpec spec;
  spec.name = "mlp";
  spec.family = Family::chain;
  spec.widths = std::move(widths);
  spec.activation = activation;
  spec.loss = loss;
  return spec;
}

ModelSpec tiny_mixed() {
  ModelSpec spec = tiny_gpt2();
  spec.name = "mixed";
  spec.family = Family::llama;
  spec.variants = variants_of(Family::llama);
  spec.layers = 5;
  spec.ffn_hidden = 48;
  spec.tied_embeddings = false;
  LayerKind moe{"moe", 16, spec.variants};
  moe.variants.experts = 4;
  moe.variants.experts_per_token = 2;
  spec.kinds = {{"dense", spec.ffn_hidden, spec.variants}, moe};
  spec.runs = {{{0}, 1}, {{0, 1}, 2}};
  return spec;
}

static const Operator* search(const Segment& segment, std::string_view name) {
  for (std::size_t v = 0; v < boost::num_vertices(segment.graph); ++v)
    if (segment.graph[v].name == name) return &segment.graph[v];
  return nullptr;
}

bool has_operator(const Segment& segment, std::string_view name) {
  return search(segment, name) != nullptr;
}

const Operator& find_operator(const Segment& segment, std::string_view name) {
  const Operator* op = search(segment, name);
  PLANNER_CHECK(op != nullptr, name);
  return *op;
}

const Parameter& find_parameter(const Segment& segment, std::string_view name) {
  for (const Parameter& p : segment.parameters)
    if (p.name == name) return p;
  PLANNER_CHECK(false, name);
}

TensorIndex find_tensor(const Segment& segment, std::string_view name) {
  for (std::size_t i = 0; i < segment.tensors.size(); ++i)
    if (segment.tensors[i].name == name) return static_cast<TensorIndex>(i);
  PLANNER_CHECK(false, name);
}

static TensorIndex storage_of(const Segment& segment, TensorIndex index) {
  while (segment.tensors[static_cast<std::size_t>(index)].in_place_of != kNoTensor)
    index = segment.tensors[static_cast<std::size_t>(index)].in_place_of;
  return index;
}

std::int64_t saved_elements(const Segment& segment, TensorRole role) {
  std::set<TensorIndex> kept;
  for (std::size_t v = 0; v < boost::num_vertices(segment.graph); ++v)
    for (const TensorIndex saved : segment.graph[v].saved) kept.insert(storage_of(segment, saved));
  std::int64_t total = 0;
  for (const TensorIndex index : kept) {
    const Tensor& tensor = segment.tensors[static_cast<std::size_t>(index)];
    if (tensor.role == role) total += tensor.per_sample;
  }
  return total;
}

}  // namespace models_test
