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

// What options say of mixtures: one set of them for all.
void copy_mixture(Variants& to, const Variants& from) {
  to.experts = from.experts;
  to.experts_per_token = from.experts_per_token;
  to.scoring = from.scoring;
  to.normalised_gates = from.normalised_gates;
  to.gate_scale = from.gate_scale;
  to.expert_groups = from.expert_groups;
  to.groups_per_token = from.groups_per_token;
  to.shared_ffn = from.shared_ffn;
  to.shared_gate = from.shared_gate;
  to.router_bias = from.router_bias;
  to.expert_bias = from.expert_bias;
}

// Without what patterns say.
Variants common(Variants v) {
  copy_mixture(v, {});
  v.window = 0;
  if (is_unrotated(v)) v.position_kind = Positions::rotary;
  return v;
}

// Megatron makes sigmoid gates add up to one; a softmax over the chosen experts does it by itself.
bool has_gates_of_megatron(const Variants& v) {
  return v.normalised_gates || v.scoring == models::Scoring::softmax || v.experts_per_token == 1;
}

}  // namespace

bool has_biases(const Variants& v) { return v.experts > 0 ? v.expert_bias : v.ffn_bias; }

bool are_biases_sayable(const Variants& v) {
  const bool all = has_biases(v);
  return v.output_bias == all && (v.qkv_bias || !all) && (v.experts == 0 || v.router_bias == all);
}

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
    if (is_mixture(all.variants)) {
      Variants same = all.variants;
      copy_mixture(same, kind.variants);
      all.sayable = all.sayable && same == all.variants;
    }
    copy_mixture(all.variants, kind.variants);
  }
  if (all.ffn_hidden == 0) all.ffn_hidden = std::exchange(all.expert_ffn_hidden, 0);
  all.mixtures = pattern(spec, is_mixture);
  all.unrotated = pattern(spec, is_unrotated);
  all.windowed = pattern(spec, is_windowed);
  return all;
}

models::ModelSpec without_options(models::ModelSpec spec) {
  const auto strip = [](Variants& v) {
    const Variants none;
    v.window = v.kv_rank = v.expert_groups = v.shared_ffn = 0;
    if (has_gates_of_megatron(v)) v.normalised_gates = true, v.scoring = none.scoring;
    v.gate_scale = none.gate_scale;
    v.sinks = v.router_bias = v.expert_bias = false;
    if (v.ffn == models::Ffn::clamped_swiglu) v.ffn = models::Ffn::swiglu;
  };
  strip(spec.variants);
  for (LayerKind& kind : spec.kinds) strip(kind.variants);
  return spec;
}

}  // namespace reports::emit
