#include "models/features.hpp"

#include <utility>

#include "models/layer_kinds.hpp"

namespace models {

static std::string_view feature_of(const Variants& v, std::int64_t seq_len) {
  const std::pair<bool, std::string_view> features[] = {
      {leaves_keys_out(v.window, seq_len), "window"},
      {leaves_keys_out(v.chunk, seq_len), "chunk"},
      {v.attention_soft_cap > 0, "attention_soft_cap"},
      {v.score_scale != 0, "score_scale"},
      {v.sinks, "sinks"},
      {v.kv_rank > 0, "kv_rank"},
      {v.qk_norm == QkNorm::plain || v.qk_norm == QkNorm::width, "qk_norm"},
      {v.residual == Residual::post_branch || v.residual == Residual::sandwich, "residual"},
      {v.shared_norm, "shared_norm"},
      {v.norm_offset, "norm_offset"},
      {v.embedding_scale != 1, "embedding_scale"},
      {v.residual_scale != 1, "residual_scale"},
      {v.logit_scale != 1, "logit_scale"},
      {v.logit_soft_cap > 0, "logit_soft_cap"},
      {v.head_bias, "head_bias"},
      {v.ffn == Ffn::geglu || v.ffn == Ffn::clamped_swiglu, "ffn"},
      {v.scoring != Scoring::softmax, "scoring"},
      {!v.normalised_gates, "normalised_gates"},
      {v.gate_scale != 1, "gate_scale"},
      {v.expert_groups > 0, "expert_groups"},
      {v.router_bias, "router_bias"},
      {v.expert_bias, "expert_bias"},
      {v.shared_ffn > 0, "shared_ffn"}};
  for (const auto& [has, name] : features)
    if (has) return name;
  return {};
}

std::string_view newest_feature(const ModelSpec& spec, std::int64_t seq_len) {
  std::string_view found = feature_of(spec.variants, seq_len);
  for_each_kind(spec, [&](const LayerView& kind) {
    if (found.empty()) found = feature_of(kind.variants, seq_len);
  });
  return found;
}

bool has_llama_layers(const ModelSpec& spec, std::int64_t seq_len) {
  return spec.family == Family::llama && spec.kinds.empty() && spec.variants.experts == 0 &&
         spec.variants.token_features == 0 && newest_feature(spec, seq_len).empty();
}

bool has_liger_loss(const ModelSpec& spec) {
  using enum Family;
  return spec.family == llama || spec.family == qwen2 || spec.family == qwen3 ||
         spec.family == mixtral;
}

}  // namespace models
