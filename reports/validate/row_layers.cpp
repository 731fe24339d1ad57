#include "reports/validate/row_layers.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "models/layer_kinds.hpp"

namespace reports::validation {
namespace {

constexpr core::IntRange kRank{0, models::kMaxWidth};

void read_latent(const core::CsvRow& row, models::ModelSpec& model, core::Problems& problems) {
  models::Variants& v = model.variants;
  row.required("kv_lora_rank", v.kv_rank, kRank, problems);
  row.optional("q_lora_rank", v.q_rank, kRank, problems);
  row.required("qk_rope", v.rope_dim, kRank, problems);
  row.required("v_head", v.value_dim, kRank, problems);
  std::int64_t unrotated = 0;
  row.required("qk_nope", unrotated, kRank, problems);
  model.head_dim = unrotated + v.rope_dim;
  model.kv_heads = model.heads;
}

void take_family(std::string_view family, models::Variants& v) {
  if (family == "gpt_oss") {
    v.ffn = models::Ffn::clamped_swiglu;
    v.qkv_bias = v.output_bias = v.sinks = v.router_bias = v.expert_bias = true;
  }
  if (family == "deepseek_v3" || family == "kimi_k2" || family == "glm4_moe")
    v.scoring = models::Scoring::sigmoid;
}

// The mixture's own; `mixture` begins as the model's layer. Returns how many layers before them are
// dense.
std::int64_t read_mixture(const core::CsvRow& row, const models::ModelSpec& model,
                          models::LayerKind& mixture, core::Problems& problems) {
  models::Variants& v = mixture.variants;
  std::int64_t first_dense = 0;
  row.required("experts_per_token", v.experts_per_token, core::IntRange{1, models::kMaxExperts},
               problems);
  row.optional("expert_ffn", mixture.ffn_hidden, core::IntRange{1, models::kMaxWidth}, problems);
  row.optional("dense_layers", first_dense, core::IntRange{0, model.layers}, problems);
  std::int64_t shared = 0, width = mixture.ffn_hidden;
  row.optional("shared_experts", shared, core::IntRange{0, models::kMaxExperts}, problems);
  row.optional("shared_expert_ffn", width, kRank, problems);
  v.shared_ffn = shared * (width > 0 ? width : mixture.ffn_hidden);
  return first_dense;
}

// Tokens of "128 on every 2nd layer", or of "4096": every layer's.
std::int64_t window_of(std::string_view text) {
  std::int64_t tokens = 0;
  std::from_chars(text.data(), text.data() + text.size(), tokens);
  return tokens;
}

}  // namespace

void read_layers(const core::CsvRow& row, models::ModelSpec& model, core::Problems& problems) {
  take_family(row.text("family"), model.variants);
  if (row.text("attention_kind") == "mla") read_latent(row, model, problems);
  models::LayerKind dense{"dense", model.ffn_hidden, model.variants};
  dense.variants.router_bias = dense.variants.expert_bias = false;
  models::LayerKind mixture{"mixture", model.ffn_hidden, model.variants};
  row.optional("experts", mixture.variants.experts, core::IntRange{0, models::kMaxExperts},
               problems);
  row.optional("mtp_layers", model.mtp_layers, core::IntRange{0, models::kMaxMtpLayers}, problems);
  if (model.layers == 0) return;
  std::vector<models::LayerKind> layers(static_cast<std::size_t>(model.layers), dense);
  if (mixture.variants.experts > 0) {
    const std::int64_t first_dense = read_mixture(row, model, mixture, problems);
    std::fill(layers.begin() + static_cast<std::ptrdiff_t>(first_dense), layers.end(), mixture);
  }
  const std::string_view window = row.text("sliding_window");
  const bool in_turn = window.find("every 2nd") != window.npos;
  for (std::size_t l = 0; l < layers.size(); l += in_turn ? 2 : 1) {
    layers[l].variants.window = window_of(window);
    if (in_turn) layers[l].name += "_local";
  }
  if (!problems.empty()) return;
  models::set_layers(model, layers);
}

}  // namespace reports::validation
