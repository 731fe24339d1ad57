#pragma once
// Questions to a model whose layers may be of several kinds (dense layers and mixtures, local and
// global attention): every answer holds for all of its kinds. Everything above models/ that must
// know what layers are like asks here, or asks the graph. Pure and thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/modules.hpp"
#include "models/spec.hpp"

namespace models {

// One kind, in the place where the spec states it.
struct LayerView {
  std::string_view name;               // "" where the model has one kind
  std::int64_t ffn_hidden = 0;
  const Variants& variants;
};

// Visits each kind once, in the order of kind_of_layers' numbers. Allocates nothing: searches ask
// for every strategy. REQUIRES: a transformer.
template <class Visit>
void for_each_kind(const ModelSpec& spec, Visit visit) {
  if (spec.kinds.empty()) visit(LayerView{{}, spec.ffn_hidden, spec.variants});
  for (const LayerKind& kind : spec.kinds)
    visit(LayerView{kind.name, kind.ffn_hidden, kind.variants});
}
template <class Holds>
bool any_kind(const ModelSpec& spec, Holds holds) {
  bool found = false;
  for_each_kind(spec, [&](const LayerView& kind) { found = found || holds(kind); });
  return found;
}

// The last layer's kind. The spec outlives it. REQUIRES: a transformer.
LayerView last_kind(const ModelSpec& spec);

// Whether a window or a chunk of so many keys leaves some of a sample's out; 0: there is none.
inline bool leaves_keys_out(std::int64_t keys, std::int64_t seq_len) {
  return keys > 0 && keys < seq_len;
}

// Of each layer, in order, the number of its kind, from 0. O(layers).
// REQUIRES: a transformer whose runs name existing kinds.
std::vector<int> kind_of_layers(const ModelSpec& spec);
// The layers that the runs add up to, at most kMaxLayers + 1.
std::int64_t layers_of_runs(const ModelSpec& spec);

// States the layers one by one: kinds that agree in all but their names become one, a row of equal
// layers or a repeated pattern one run. Where all agree the spec becomes one of a single kind.
// Sets `layers` too. REQUIRES: at least one layer.
void set_layers(ModelSpec& spec, std::span<const LayerKind> layers);

// Keeps `count` of the layers, evenly chosen, and of each kind one where the count allows it.
// REQUIRES: a transformer that check_spec accepts; 1 <= count <= layers.
void keep_layers(ModelSpec& spec, std::int64_t count);
// "3 dense, 58 moe": how many layers each kind has; "" where all are of one.
std::string kinds_text(const ModelSpec& spec);

// Whether some layer is a mixture of experts.
bool has_experts(const ModelSpec& spec);
// Modules that some layer has. 0 without attention.
ModuleSet modules_of(const ModelSpec& spec);
// What a number of expert ranks must divide: the experts of a mixture, or the greatest number that
// divides those of all kinds; 0 without experts.
std::int64_t expert_divisor(const ModelSpec& spec);
// Copies of a sample's tokens that a mixture sends to its experts, of `tokens` on this rank; where
// mixtures differ, the greatest number that divides those of all. 0 without experts.
std::int64_t token_copies_divisor(const ModelSpec& spec, std::int64_t tokens);
// Whether so many tensor ranks can divide the heads of every kind of layer: each has as many query
// heads, and as many key heads or, of more ranks than those, one that several of them share.
bool divides_heads(const ModelSpec& spec, std::int64_t tensor);
// "a divisor of 8 heads", as divides_heads() expects it.
std::string heads_expected(const ModelSpec& spec);
// divides_heads(), and the widths of the feed-forwards of every kind.
bool divides_layers(const ModelSpec& spec, std::int64_t tensor);
// Of every kind, each once, in the order of kinds.
std::vector<std::int64_t> ffn_widths(const ModelSpec& spec);

}  // namespace models
