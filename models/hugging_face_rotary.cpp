// Angles of rotary positions: what a config.json says of their base, by each of its names.
#include <algorithm>
#include <array>

#include "models/hugging_face_parts.hpp"
#include "models/layer_kinds.hpp"

namespace models::hf {
namespace {

using core::JsonReader;

// Where a file says nothing, as transformers has it: of layers that see all tokens, and of those
// with a window.
struct Usual {
  std::string_view type;
  double base, local;
};
constexpr std::array kUsual{Usual{"mixtral", 1e6, 1e6}, Usual{"smollm3", 2e6, 2e6},
                            Usual{"gemma3_text", 1e6, 1e4}, Usual{"gpt_oss", 1.5e5, 1.5e5},
                            Usual{"llama4_text", 5e5, 5e5}};

Usual usual_of(std::string_view type) {
  const auto at = std::ranges::find(kUsual, type, &Usual::type);
  return at == kUsual.end() ? Usual{type, 1e4, 1e4} : *at;
}

bool read_base(JsonReader& r, std::string_view key, double& base) {
  return r.has(key) && r.optional(key, base, core::positive());
}

// "rope_parameters" of one kind of layers.
void read_nested(JsonReader& r, std::string_view key, double& base) {
  if (!r.has(key)) return;
  if (auto inner = r.optional_object(key)) read_base(*inner, "rope_theta", base);
}

}  // namespace

void read_rotary_base(JsonReader& r, ModelSpec& spec, std::string_view type) {
  const Usual usual = usual_of(type);
  double base = usual.base, local = usual.local;
  const bool told = read_base(r, "rope_theta", base) || read_base(r, "rotary_emb_base", base);
  if (told && usual.base == usual.local) local = base;
  read_base(r, "rope_local_base_freq", local);
  if (r.has("rope_parameters")) {
    if (auto all = r.optional_object("rope_parameters")) {
      if (read_base(*all, "rope_theta", base)) local = base;
      read_nested(*all, "full_attention", base);
      read_nested(*all, "sliding_attention", local);
    }
  }
  const auto turns = [](const LayerView& kind) {
    return kind.variants.position_kind == Positions::rotary;
  };
  if (!any_kind(spec, turns)) return;
  const auto set = [&](Variants& v) { v.rotary_base = v.window > 0 ? local : base; };
  set(spec.variants);
  for (LayerKind& kind : spec.kinds) set(kind.variants);
}

}  // namespace models::hf
