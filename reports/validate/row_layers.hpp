#pragma once
// What a row of published runs says of its layers: their attention, mixtures of experts, and which
// layers are of which kind.

#include "core/csv.hpp"
#include "models/spec.hpp"

namespace reports::validation {

// Columns attention_kind, q_lora_rank, kv_lora_rank, qk_nope, qk_rope, v_head, sliding_window
// ("128 on every 2nd layer": the first of each two), and those of mixtures. Family gpt_oss has
// sinks, biases and clamped gates [gpt-oss]; deepseek_v3, kimi_k2 and glm4_moe score by sigmoids.
// The spec's widths, layers and family are read already.
void read_layers(const core::CsvRow& row, models::ModelSpec& model, core::Problems& problems);

}  // namespace reports::validation
