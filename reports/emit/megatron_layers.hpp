#pragma once
// Internal: what Megatron-LM can say of a model's layers. Layers of several kinds are patterns:
// --moe-layer-freq, --no-rope-freq and --window-attn-skip-freq take a Python list with an entry for
// each layer.

#include <cstdint>
#include <string>

#include "models/spec.hpp"

namespace reports::emit {

struct MegatronLayers {
  // Kinds differ in experts and their gates, in rotation and in windows alone.
  bool sayable = true;
  models::Variants variants;           // of all layers; of experts, what the mixtures have
  std::int64_t ffn_hidden = 0;
  std::int64_t expert_ffn_hidden = 0;  // where both kinds of feed-forward are there, else 0
  std::int64_t window = 0;             // keys that a token sees in layers with a window, 0: none
  // "([0]*3+[1]*1)*12": the layers that are; "" no pattern.
  std::string mixtures, unrotated, windowed;
};

// Whether linear layers have biases, those of experts and routers too. Megatron gives biases to all
// of them, to none, or to queries, keys and values alone.
bool has_biases(const models::Variants& v);
bool are_biases_sayable(const models::Variants& v);

// REQUIRES: check_spec accepts it.
MegatronLayers megatron_layers(const models::ModelSpec& spec);

// The model without what Megatron-LM has options for beyond GPT's and Llama's layers: windows,
// latent attention, how its experts are chosen and weighed, and the sinks, clamped gates and biases
// of gpt-oss.
models::ModelSpec without_options(models::ModelSpec spec);

}  // namespace reports::emit
