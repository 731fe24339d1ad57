#pragma once
// What a model has that is newer than GPT's and Llama's layers, by name. Pure and thread-safe.

#include <cstdint>
#include <string_view>

#include "models/spec.hpp"

namespace models {

// The key of a model file that says what a layer has beyond GPT's and Llama's and their mixtures,
// of the first kind that has such; "" where none has. A window counts where a sample is longer.
std::string_view newest_feature(const ModelSpec& spec, std::int64_t seq_len);

// Whether all its layers are Llama 3's, whatever their sizes.
bool has_llama_layers(const ModelSpec& spec, std::int64_t seq_len);

// Whether Liger's kernels take the loss of models of its family in pieces, around transformers'
// code (linkedin/Liger-Kernel, transformers/monkey_patch.py) [liger].
bool has_liger_loss(const ModelSpec& spec);

}  // namespace models
