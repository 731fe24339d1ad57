#pragma once
// Parts of a layer whose results can be dropped by the forward pass and made again for the backward
// pass, alone: the words of Megatron-Core's --recompute-modules, and one that it has not (mlp_act).
// An operator may belong to several: the activation of an expert to moe_act and to moe.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace models {

enum class Module : std::uint8_t {
  core_attn,       // the attention core: scores, softmax, their product with the values
  layernorm,       // every norm of the layer
  mlp_act,         // activations of dense feed-forwards and shared experts
  moe_act,         // those of routed experts
  mla_up_proj,     // latent attention: what makes queries, keys and values from the latents
  mlp,             // dense feed-forwards
  moe,             // mixtures whole: router, exchanges, experts, shared experts
  shared_experts,
};
inline constexpr std::array<std::string_view, 8> kModuleNames{
    "core_attn", "layernorm", "mlp_act", "moe_act", "mla_up_proj", "mlp", "moe", "shared_experts"};

// One bit a module.
using ModuleSet = std::uint8_t;
constexpr ModuleSet set_of(Module m) {
  return static_cast<ModuleSet>(1U << static_cast<unsigned>(m));
}
constexpr ModuleSet both(ModuleSet a, ModuleSet b) { return static_cast<ModuleSet>(a | b); }
inline std::vector<std::string> names_of(ModuleSet set) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kModuleNames.size(); ++i)
    if ((set >> i & 1U) != 0) names.emplace_back(kModuleNames[i]);
  return names;
}
constexpr bool has(ModuleSet set, Module m) { return (set & set_of(m)) != 0; }

}  // namespace models
