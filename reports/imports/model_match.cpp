// Which known models have the sizes that a configuration states.
#include <algorithm>
#include <cstdlib>

#include "models/layer_kinds.hpp"
#include "models/zoo.hpp"
#include "reports/imports/facts.hpp"

namespace reports::imports {
namespace {

using models::ModelSpec;
using models::Variants;

// What of a layer decides memory, communication or time by more than a rounding.
Variants comparable(Variants v) {
  const Variants usual;
  v.scoring = usual.scoring;
  v.normalised_gates = usual.normalised_gates;
  v.gate_scale = usual.gate_scale;
  v.expert_groups = v.groups_per_token = 0;
  v.norm_offset = false;
  v.rotary_base = usual.rotary_base;
  return v;
}

bool same_layers(const ModelSpec& a, const ModelSpec& b) {
  const auto layer = [](const ModelSpec& spec, int kind) {
    if (spec.kinds.empty()) return models::LayerKind{"", spec.ffn_hidden, spec.variants};
    return spec.kinds[static_cast<std::size_t>(kind)];
  };
  const std::vector<int> of_a = models::kind_of_layers(a), of_b = models::kind_of_layers(b);
  for (std::size_t l = 0; l < of_a.size(); ++l) {
    // A row of layers of the same two kinds was compared before.
    if (l > 0 && of_a[l] == of_a[l - 1] && of_b[l] == of_b[l - 1]) continue;
    const models::LayerKind x = layer(a, of_a[l]), y = layer(b, of_b[l]);
    if (x.ffn_hidden != y.ffn_hidden || comparable(x.variants) != comparable(y.variants))
      return false;
  }
  return true;
}

// Rows of a position table are parameters; elsewhere `positions` is the context trained on.
bool same_sizes(const ModelSpec& a, const ModelSpec& b) {
  using models::Activation;
  const bool learned = a.variants.position_kind == models::Positions::learned;
  const auto plain = [](Activation x) {
    return x == Activation::gelu_erf ? Activation::gelu_tanh : x;
  };
  const bool gated = models::is_gated(a.variants.ffn);
  return models::is_transformer(b.family) && a.layers == models::layers_of(b) &&
         a.hidden == b.hidden && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         models::head_dim_of(a) == models::head_dim_of(b) &&
         a.tied_embeddings == b.tied_embeddings &&
         (!learned || a.positions == b.positions) &&
         (gated || plain(a.activation) == plain(b.activation)) && same_layers(a, b);
}

}  // namespace

bool has_sizes(const Sizes& sizes, const ModelSpec& spec) {
  const bool has_vocab = sizes.vocabs.empty() || std::ranges::count(sizes.vocabs, spec.vocab) > 0;
  return has_vocab && same_sizes(sizes.spec, spec);
}

std::vector<std::string> models_of_sizes(const Sizes& sizes) {
  std::vector<ModelSpec> found;
  for (models::ZooEntry& entry : models::zoo())
    if (has_sizes(sizes, entry.spec)) found.push_back(std::move(entry.spec));
  std::ranges::stable_sort(found, {}, [&](const ModelSpec& spec) {
    return std::abs(spec.positions - sizes.spec.positions);
  });
  std::vector<std::string> names;
  for (const ModelSpec& spec : found) names.push_back(spec.name);
  return names;
}

}  // namespace reports::imports
