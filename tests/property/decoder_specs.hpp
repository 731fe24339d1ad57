#pragma once
// Small models, each with one or more things that decoders have had since Llama. Pure.

#include <functional>
#include <string>
#include <vector>

#include "tests/property/run_program.hpp"

namespace tests {

// Two layers, 24 wide, 12 query heads of 4 that share 6 key heads, 9 tokens; then changed.
inline models::ModelSpec tiny_decoder(const std::string& name,
                                      const std::function<void(models::Variants&)>& change,
                                      models::Family family = models::Family::llama) {
  models::ModelSpec spec = tiny_llama(family);
  spec.layers = 2;
  spec.name = name;
  change(spec.variants);
  return spec;
}

// The same with a mixture of 4 experts, of which a token takes 2; 8 tokens.
inline models::ModelSpec tiny_router(const std::string& name,
                                     const std::function<void(models::Variants&)>& change) {
  models::ModelSpec spec = tiny_mixture();
  spec.layers = 2;
  spec.name = name;
  change(spec.variants);
  return spec;
}

inline models::ModelSpec tiny_latent(std::int64_t q_rank) {
  models::ModelSpec spec = tiny_decoder(q_rank > 0 ? "latent" : "latent-without-q",
                                        [&](models::Variants& v) {
    v.kv_rank = 10;
    v.q_rank = q_rank;
    v.rope_dim = 2;
    v.value_dim = 5;
  });
  spec.kv_heads = spec.heads;
  spec.head_dim = 6;
  return spec;
}

inline std::vector<models::ModelSpec> attention_variants() {
  using models::QkNorm;
  using models::Variants;
  std::vector<models::ModelSpec> all{
      tiny_decoder("window", [](Variants& v) { v.window = 4; }),
      tiny_decoder("chunk", [](Variants& v) { v.chunk = 4; }),
      tiny_decoder("soft-cap", [](Variants& v) { v.attention_soft_cap = 0.5; }),
      tiny_decoder("sinks", [](Variants& v) { v.sinks = true, v.window = 5; }),
      tiny_decoder("score-scale", [](Variants& v) { v.score_scale = 0.3; }),
      tiny_decoder("no-positions",
                   [](Variants& v) { v.position_kind = models::Positions::none; }),
      tiny_decoder("plain-qk-norm", [](Variants& v) { v.qk_norm = QkNorm::plain; }),
      tiny_decoder("width-qk-norm", [](Variants& v) { v.qk_norm = QkNorm::width; })};
  return all;
}

inline std::vector<models::ModelSpec> residual_variants() {
  using models::Residual;
  using models::Variants;
  std::vector<models::ModelSpec> all{
      tiny_decoder("post-branch", [](Variants& v) { v.residual = Residual::post_branch; }),
      tiny_decoder("sandwich", [](Variants& v) {
        v.residual = Residual::sandwich;
        v.norm_offset = true;
      }),
      tiny_decoder("shared-norm", [](Variants& v) {
        v.residual = Residual::parallel;
        v.norm = models::Norm::layer_norm;
        v.shared_norm = v.head_bias = true;
      }),
      tiny_decoder("multipliers", [](Variants& v) {
        v.embedding_scale = 3;
        v.residual_scale = 0.4;
        v.logit_scale = 0.6;
        v.score_scale = 0.2;
      }),
      tiny_decoder("logit-cap", [](Variants& v) {
        v.logit_soft_cap = 1.5;
        v.logit_scale = 2;
      }),
      tiny_decoder("qk-norm-offset",
                   [](Variants& v) {
                     v.norm_offset = true;
                     v.residual = Residual::sandwich;
                   },
                   models::Family::qwen3)};
  return all;
}

inline std::vector<models::ModelSpec> feed_forward_variants() {
  using models::Ffn;
  using models::Scoring;
  using models::Variants;
  std::vector<models::ModelSpec> all{
      tiny_decoder("geglu", [](Variants& v) { v.ffn = Ffn::geglu; }),
      tiny_decoder("clamped-swiglu", [](Variants& v) {
        v.ffn = Ffn::clamped_swiglu;
        v.ffn_bias = v.output_bias = v.qkv_bias = true;
      }),
      tiny_decoder("relu-squared", [](Variants& v) { v.ffn = Ffn::gelu; }),
      tiny_router("softmax-of-all", [](Variants& v) {
        v.normalised_gates = false;
        v.gate_scale = 1.5;
      }),
      tiny_router("sigmoid", [](Variants& v) {
        v.scoring = Scoring::sigmoid;
        v.gate_scale = 2.5;
      }),
      tiny_router("sigmoid-not-normalised", [](Variants& v) {
        v.scoring = Scoring::sigmoid;
        v.normalised_gates = false;
      }),
      tiny_router("gated-inputs", [](Variants& v) {
        v.scoring = Scoring::sigmoid;
        v.normalised_gates = false;
        v.experts_per_token = 1;
        v.gated_inputs = true;
        v.shared_ffn = 12;
      }),
      tiny_router("shared-expert", [](Variants& v) { v.shared_ffn = 12; }),
      tiny_router("gated-shared-expert", [](Variants& v) {
        v.shared_ffn = 12;
        v.shared_gate = true;
        v.normalised_gates = false;
      }),
      tiny_router("expert-biases", [](Variants& v) {
        v.ffn = Ffn::clamped_swiglu;
        v.router_bias = v.expert_bias = true;
      })};
  all[2].activation = models::Activation::relu_squared;
  return all;
}

// Multi-token prediction: a table of its own on the last stage, or the head's; of dense layers,
// mixtures and latent attention.
inline std::vector<models::ModelSpec> mtp_variants() {
  std::vector<models::ModelSpec> all{
      tiny_decoder("mtp", [](models::Variants&) {}),
      tiny_decoder("mtp-tied", [](models::Variants& v) { v.embedding_scale = 3; }),
      tiny_router("mtp-mixture", [](models::Variants& v) { v.shared_ffn = 12; }),
      tiny_latent(8)};
  for (models::ModelSpec& spec : all) spec.mtp_layers = 1;
  all[1].tied_embeddings = true;
  all[1].mtp_layers = 2;
  all[3].name = "mtp-latent";
  return all;
}

inline std::vector<models::ModelSpec> decoders() {
  std::vector<models::ModelSpec> all;
  for (const auto& some : {attention_variants(), residual_variants(), feed_forward_variants(),
                           {tiny_latent(8), tiny_latent(0)}, mtp_variants()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace tests
