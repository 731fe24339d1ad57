#include "reports/emit/megatron_layers.hpp"

#include <utility>

#include <fmt/format.h>

#include "models/layer_kinds.hpp"

namespace reports::emit {
namespace {

using models::LayerKind;
using models::Positions;
using models::Variants;

// "[0]*3+[1]*1": a run's layers once.
template <class Holds>
std::string row(const models::ModelSpec& spec, const models::LayerRun& run, Holds holds) {
  std::string text;
  for (std::size_t i = 0; i < run.kinds.size();) {
    const auto at = [&](std::size_t l) {
      return holds(spec.kinds[static_cast<std::size_t>(run.kinds[l])].variants);
    };
    std::size_t end = i + 1;
    while (end < run.kinds.size() && at(end) == at(i)) ++end;
    text += fmt::format("{}[{}]*{}", i > 0 ? "+" : "", at(i) ? 1 : 0, end - i);
    i = end;
  }
  return text;
}

// "" where all layers are alike in this.
template <class Holds>
std::string pattern(const models::ModelSpec& spec, Holds holds) {
  const auto here = [&](const models::LayerView& kind) { return holds(kind.variants); };
  const auto not_here = [&](const models::LayerView& kind) { return !holds(kind.variants); };
  if (!models::any_kind(spec, here) || !models::any_kind(spec, not_here)) return "";
  std::string text;
  for (const models::LayerRun& run : spec.runs)
    text += fmt::format("{}({})*{}", text.empty() ? "" : "+", row(spec, run, holds), run.times);
  return text;
}

bool is_mixture(const Variants& v) { return v.experts > 0; }
bool is_unrotated(const Variants& v) { return v.position_kind == Positions::none; }
bool is_windowed(const Variants& v) { return v.window > 0; }

// Without what patterns say.
Variants common(Variants v) {
  v.experts = v.experts_per_token = v.window = 0;
  if (is_unrotated(v)) v.position_kind = Positions::rotary;
  return v;
}

}  // namespace

MegatronLayers megatron_layers(const models::ModelSpec& spec) {
  MegatronLayers all;
  all.variants = spec.variants;
  all.ffn_hidden = spec.ffn_hidden;
  all.window = std::exchange(all.variants.window, 0);
  if (spec.kinds.empty()) return all;
  all.window = 0;
  all.variants = common(spec.kinds.front().variants);
  all.ffn_hidden = 0;
  const auto set = [&](std::int64_t& once, std::int64_t value) {
    all.sayable = all.sayable && (once == 0 || once == value);
    once = value;
  };
  for (const LayerKind& kind : spec.kinds) {
    all.sayable = all.sayable && common(kind.variants) == common(all.variants);
    if (is_windowed(kind.variants)) set(all.window, kind.variants.window);
    const bool mixture = is_mixture(kind.variants);
    set(mixture ? all.expert_ffn_hidden : all.ffn_hidden, kind.ffn_hidden);
    if (!mixture) continue;
    set(all.variants.experts, kind.variants.experts);
    set(all.variants.experts_per_token, kind.variants.experts_per_token);
  }
  if (all.ffn_hidden == 0) all.ffn_hidden = std::exchange(all.expert_ffn_hidden, 0);
  all.mixtures = pattern(spec, is_mixture);
  all.unrotated = pattern(spec, is_unrotated);
  all.windowed = pattern(spec, is_windowed);
  return all;
}

}  // namespace reports::emit
