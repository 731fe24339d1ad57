#include "models/hugging_face_layers.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "models/layer_kinds.hpp"

namespace models {

using core::IntRange;
using core::JsonReader;

namespace {

constexpr IntRange kLayerRange{0, kMaxLayers};
constexpr IntRange kStepRange{1, kMaxLayers};

// So many entries, of which `holds` says what.
template <class Holds>
std::vector<bool> by_layer(std::int64_t layers, Holds holds) {
  std::vector<bool> all;
  for (std::int64_t l = 0; l < layers; ++l) all.push_back(holds(l));
  return all;
}

bool has(const std::vector<std::int64_t>& list, std::int64_t l) {
  return std::ranges::find(list, l) != list.end();
}

// Whether the list has an entry for each layer; else that is a problem.
bool covers(JsonReader& r, std::string_view key, std::size_t entries, std::int64_t layers) {
  if (static_cast<std::int64_t>(entries) >= layers) return true;
  r.problem(key, fmt::format("an entry for each of {} layers", layers),
            fmt::format("{} entries", entries));
  return false;
}

}  // namespace

std::vector<bool> mixture_layers(JsonReader& r, std::int64_t layers) {
  std::int64_t step = 1, dense_first = 0, every = 1, interleave = 1;
  std::vector<std::int64_t> dense, mixtures;
  r.optional("decoder_sparse_step", step, kStepRange);
  r.optional("mlp_only_layers", dense, kLayerRange);
  r.optional("first_k_dense_replace", dense_first, kLayerRange);
  r.optional("moe_layer_freq", every, kStepRange);
  r.optional("interleave_moe_layer_step", interleave, kStepRange);
  const bool listed = r.optional("moe_layers", mixtures, kLayerRange);
  return by_layer(layers, [&](std::int64_t l) {
    if (listed) return has(mixtures, l);
    return (l + 1) % step == 0 && !has(dense, l) && l >= dense_first && l % every == 0 &&
           (l + 1) % interleave == 0;
  });
}

std::vector<bool> window_layers(JsonReader& r, std::int64_t layers, std::int64_t usual_pattern) {
  std::vector<std::string> types;
  if (r.optional("layer_types", types) && covers(r, "layer_types", types.size(), layers)) {
    for (const std::string& type : types)
      if (type != "full_attention" && type != "sliding_attention") {
        r.problem("layer_types", "full_attention or sliding_attention", "\"" + type + "\"",
                  "this variant of the model is not supported");
        return {};
      }
    return by_layer(layers, [&](std::int64_t l) {
      return types[static_cast<std::size_t>(l)] == "sliding_attention";
    });
  }
  std::int64_t pattern = usual_pattern, full_first = 0;
  r.optional("sliding_window_pattern", pattern, kStepRange);
  if (pattern > 0)
    return by_layer(layers, [&](std::int64_t l) { return (l + 1) % pattern != 0; });
  r.optional("max_window_layers", full_first, kLayerRange);
  return by_layer(layers, [&](std::int64_t l) { return l >= full_first; });
}

std::vector<bool> rotary_layers(JsonReader& r, std::int64_t layers) {
  std::vector<std::int64_t> rotated;
  if (r.optional("no_rope_layers", rotated, IntRange{0, 1}) && !rotated.empty() &&
      covers(r, "no_rope_layers", rotated.size(), layers))
    return by_layer(layers,
                    [&](std::int64_t l) { return rotated[static_cast<std::size_t>(l)] == 1; });
  std::int64_t interval = 4;
  r.optional("no_rope_layer_interval", interval, kStepRange);
  return by_layer(layers, [&](std::int64_t l) { return (l + 1) % interval != 0; });
}

void set_layers_by(ModelSpec& spec, const std::vector<bool>& chosen, const LayerKind& kind,
                   const LayerKind& others) {
  if (chosen.empty()) return;          // what is missing is a problem elsewhere
  std::vector<LayerKind> layers;
  for (const bool here : chosen) layers.push_back(here ? kind : others);
  set_layers(spec, layers);
}

void set_window_by(ModelSpec& spec, const std::vector<bool>& local, std::int64_t window) {
  std::vector<LayerKind> layers;
  const bool one = spec.kinds.empty();
  for (const int kind : kind_of_layers(spec)) {
    LayerKind layer = one ? LayerKind{"", spec.ffn_hidden, spec.variants}
                          : spec.kinds[static_cast<std::size_t>(kind)];
    const bool within = local[layers.size()];
    const std::string where = within ? "local" : "global";
    layer.name = layer.name.empty() ? where : layer.name + "_" + where;
    layer.variants.window = within ? window : 0;
    layers.push_back(std::move(layer));
  }
  set_layers(spec, layers);
}

}  // namespace models
