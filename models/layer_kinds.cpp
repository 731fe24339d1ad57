#include "models/layer_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/repeats.hpp"

namespace models {

namespace {

constexpr std::size_t kLongestPattern = 128;  // layers of a repeated pattern that is looked for

bool same_layer(const LayerKind& a, const LayerKind& b) {
  return a.ffn_hidden == b.ffn_hidden && a.variants == b.variants;
}

// The pattern from `at`; what does not repeat is a layer by itself.
LayerRun run_from(const std::vector<int>& of, std::size_t at) {
  const core::Repeats found = core::most_repeated(
      at, of.size(), kLongestPattern,
      [&](std::size_t i, std::size_t length) { return of[i] == of[i - length]; });
  const auto first = of.begin() + static_cast<std::ptrdiff_t>(at);
  return {{first, first + static_cast<std::ptrdiff_t>(found.length)},
          static_cast<std::int64_t>(found.times)};
}

}  // namespace

LayerView last_kind(const ModelSpec& spec) {
  if (spec.kinds.empty()) return {{}, spec.ffn_hidden, spec.variants};
  const LayerKind& kind = spec.kinds[static_cast<std::size_t>(kind_of_layers(spec).back())];
  return {kind.name, kind.ffn_hidden, kind.variants};
}

std::vector<int> kind_of_layers(const ModelSpec& spec) {
  if (spec.kinds.empty()) return std::vector<int>(static_cast<std::size_t>(spec.layers), 0);
  std::vector<int> of;
  of.reserve(static_cast<std::size_t>(spec.layers));
  for (const LayerRun& run : spec.runs)
    for (std::int64_t i = 0; i < run.times; ++i)
      of.insert(of.end(), run.kinds.begin(), run.kinds.end());
  return of;
}

std::int64_t layers_of_runs(const ModelSpec& spec) {
  constexpr std::int64_t kMost = kMaxLayers + 1;
  std::int64_t layers = 0;
  for (const LayerRun& run : spec.runs) {
    const std::int64_t length = std::ssize(run.kinds);
    if (length > 0 && run.times > (kMost - layers) / length) return kMost;
    layers += length * run.times;
  }
  return layers;
}

void set_layers(ModelSpec& spec, std::span<const LayerKind> layers) {
  spec.layers = std::ssize(layers);
  spec.kinds.clear();
  spec.runs.clear();
  std::vector<int> of;
  for (const LayerKind& layer : layers) {
    const auto known = std::ranges::find_if(
        spec.kinds, [&](const LayerKind& kind) { return same_layer(kind, layer); });
    of.push_back(static_cast<int>(known - spec.kinds.begin()));
    if (known == spec.kinds.end()) spec.kinds.push_back(layer);
  }
  if (spec.kinds.size() == 1) {
    spec.ffn_hidden = layers.front().ffn_hidden;
    spec.variants = layers.front().variants;
    spec.kinds.clear();
    return;
  }
  for (std::size_t at = 0; at < of.size();) {
    spec.runs.push_back(run_from(of, at));
    at += spec.runs.back().kinds.size() * static_cast<std::size_t>(spec.runs.back().times);
  }
}

void keep_layers(ModelSpec& spec, std::int64_t count) {
  if (spec.kinds.empty()) {
    spec.layers = count;
    return;
  }
  const std::vector<int> of = kind_of_layers(spec);
  std::vector<std::size_t> kept;       // evenly chosen layers
  for (std::int64_t i = 0; i < count; ++i)
    kept.push_back(static_cast<std::size_t>(i * spec.layers / count));
  const auto kind_at = [&](std::size_t l) { return of[l]; };
  for (int kind = 0; kind < static_cast<int>(spec.kinds.size()); ++kind) {
    if (std::ranges::count(kept, kind, kind_at) > 0) continue;
    // In the place of the nearest one of a kind that is there more than once.
    const auto first = static_cast<std::size_t>(std::ranges::find(of, kind) - of.begin());
    auto spare = kept.end();
    for (auto at = kept.begin(); at != kept.end(); ++at) {
      const auto away = [&](std::size_t l) { return l > first ? l - first : first - l; };
      const bool several = std::ranges::count(kept, of[*at], kind_at) > 1;
      if (several && (spare == kept.end() || away(*at) <= away(*spare))) spare = at;
    }
    if (spare != kept.end()) *spare = first;
  }
  std::ranges::sort(kept);
  std::vector<LayerKind> layers;
  for (const std::size_t l : kept) layers.push_back(spec.kinds[static_cast<std::size_t>(of[l])]);
  set_layers(spec, layers);
}

std::string kinds_text(const ModelSpec& spec) {
  std::string text;
  const std::vector<int> of = kind_of_layers(spec);
  for (std::size_t k = 0; k < spec.kinds.size(); ++k)
    text += fmt::format("{}{} {}", k > 0 ? ", " : "",
                        std::ranges::count(of, static_cast<int>(k)), spec.kinds[k].name);
  return text;
}

ModuleSet modules_of(const ModelSpec& spec) {
  using enum Module;
  if (!is_transformer(spec.family)) return 0;
  ModuleSet found = both(set_of(core_attn), set_of(layernorm));
  const auto add = [&](bool has, Module m) { found = has ? both(found, set_of(m)) : found; };
  for_each_kind(spec, [&](const LayerView& kind) {
    const Variants& v = kind.variants;
    const bool routed = v.experts > 0, shared = routed && v.shared_ffn > 0;
    add(!routed, mlp);
    add(!routed || shared, mlp_act);
    add(routed, moe);
    add(routed, moe_act);
    add(shared, shared_experts);
    add(v.kv_rank > 0, mla_up_proj);
  });
  return found;
}

bool has_experts(const ModelSpec& spec) {
  return any_kind(spec, [](const LayerView& kind) { return kind.variants.experts > 0; });
}

std::int64_t expert_divisor(const ModelSpec& spec) {
  std::int64_t common = 0;
  for_each_kind(spec, [&](const LayerView& kind) {
    common = std::gcd(common, kind.variants.experts);
  });
  return common;
}

std::int64_t token_copies_divisor(const ModelSpec& spec, std::int64_t tokens) {
  std::int64_t common = 0;
  for_each_kind(spec, [&](const LayerView& kind) {
    common = std::gcd(common, tokens * kind.variants.experts_per_token);
  });
  return common;
}

std::vector<std::int64_t> ffn_widths(const ModelSpec& spec) {
  std::vector<std::int64_t> widths;
  for_each_kind(spec, [&](const LayerView& kind) {
    if (std::ranges::find(widths, kind.ffn_hidden) == widths.end())
      widths.push_back(kind.ffn_hidden);
  });
  return widths;
}

// The norm over the width of all heads adds up whole heads, of which several ranks would have one.
static bool can_share_keys(const ModelSpec& spec) {
  return !any_kind(spec, [](const LayerView& kind) {
    return kind.variants.kv_rank > 0 || kind.variants.qk_norm == QkNorm::width;
  });
}

bool divides_heads(const ModelSpec& spec, std::int64_t tensor) {
  if (spec.kv_heads % tensor == 0) return true;
  return can_share_keys(spec) && spec.heads % tensor == 0 && tensor % spec.kv_heads == 0 &&
         head_dim_of(spec) % (tensor / spec.kv_heads) == 0;
}

std::string heads_expected(const ModelSpec& spec) {
  if (spec.kv_heads == spec.heads) return fmt::format("a divisor of {} heads", spec.heads);
  if (!can_share_keys(spec)) return fmt::format("a divisor of {} key-value heads", spec.kv_heads);
  return fmt::format("a divisor of {} heads, and a divisor or a multiple of {} key-value heads",
                     spec.heads, spec.kv_heads);
}

bool divides_layers(const ModelSpec& spec, std::int64_t tensor) {
  return divides_heads(spec, tensor) && !any_kind(spec, [&](const LayerView& kind) {
    return kind.ffn_hidden % tensor != 0 || kind.variants.shared_ffn % tensor != 0;
  });
}

}  // namespace models
