#pragma once
// Private to hugging_face.cpp: which layers are what, as the configurations of Hugging Face say it.
// Families state patterns by keys of their own; each function reads all of them into one form, an
// entry for each layer. Keys that are absent say that all layers are alike. Lists of another length
// and types of layers that no builder makes are problems at their keys.

#include <cstdint>
#include <vector>

#include "core/json_reader.hpp"
#include "models/spec.hpp"

namespace models {

// Which layers are mixtures of experts; the others are dense. decoder_sparse_step and
// mlp_only_layers (Qwen), first_k_dense_replace and moe_layer_freq (DeepSeek, GLM, Kimi),
// interleave_moe_layer_step or moe_layers (Llama 4).
std::vector<bool> mixture_layers(core::JsonReader& r, std::int64_t layers);
// Which layers attend within the window that the configuration states. layer_types (most since
// 2025), sliding_window_pattern (Gemma 3: every n-th layer attends to all tokens),
// max_window_layers (Qwen 2: from that layer on). usual_pattern: the n of a family whose files may
// say nothing; 0: it has none.
std::vector<bool> window_layers(core::JsonReader& r, std::int64_t layers,
                                std::int64_t usual_pattern);
// Which layers rotate queries and keys (SmolLM 3, Llama 4). no_rope_layers has a 1 for each layer
// that does; without it, every n-th layer does not, n being no_rope_layer_interval.
std::vector<bool> rotary_layers(core::JsonReader& r, std::int64_t layers);

// The spec's layers: `others` where `chosen` says no. Where all are alike the spec has one kind.
void set_layers_by(ModelSpec& spec, const std::vector<bool>& chosen, const LayerKind& kind,
                   const LayerKind& others);

// The spec's layers, of which these attend within `window`.
void set_window_by(ModelSpec& spec, const std::vector<bool>& local, std::int64_t window);

}  // namespace models
