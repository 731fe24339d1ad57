// The sizes of a model by Megatron-LM's options (NVIDIA/Megatron-LM d98e8a6,
// megatron/training/arguments.py and megatron/core/transformer/transformer_config.py: defaults).
#include <algorithm>
#include <array>
#include <charconv>

#include "models/layer_kinds.hpp"
#include "reports/imports/megatron.hpp"
#include "reports/imports/patterns.hpp"

namespace reports::imports {
namespace {

constexpr std::string_view kModel = "--model";

// What layers have, but for patterns.
void read_variants(Settings& s, models::ModelSpec& spec) {
  using namespace models;
  Variants& v = spec.variants;
  v = variants_of(Family::gpt2);
  const auto type = s.one_of("--position-embedding-type", kModel,
                             {"learned_absolute", "rope", "yarn", "none"});
  const bool turns = s.flag("--use-rotary-position-embeddings", kModel) ||
                     (type && (*type == "rope" || *type == "yarn"));
  v.position_kind = turns             ? Positions::rotary
                    : type == "none" ? Positions::none
                                     : Positions::learned;
  v.rotary_fraction = s.number("--rotary-percent", kModel).value_or(1);
  v.rotary_base = s.number("--rotary-base", kModel).value_or(10000);
  const bool rms = s.one_of("--normalization", kModel, {"LayerNorm", "RMSNorm"}) == "RMSNorm";
  v.norm = rms ? Norm::rms_norm : Norm::layer_norm;
  v.norm_bias = !rms;
  spec.layer_norm_epsilon = s.number("--norm-epsilon", kModel).value_or(1e-5);
  const bool geglu = s.flag("--quick-geglu", kModel);
  // gpt-oss's gates; a clamp of SwiGLU stays a setting that is named as not read.
  const bool clamped = geglu && s.number("--activation-func-clamp-value", kModel).has_value();
  if (clamped) s.number("--glu-linear-offset", kModel);
  v.ffn = s.flag("--swiglu", kModel) ? Ffn::swiglu
          : geglu                    ? (clamped ? Ffn::clamped_swiglu : Ffn::geglu)
                                     : Ffn::gelu;
  const auto softmax = s.one_of("--softmax-type", kModel, {"vanilla", "off-by-one", "learnable"});
  v.sinks = softmax == "learnable";
  spec.activation = s.flag("--squared-relu", kModel) ? Activation::relu_squared
                                                     : Activation::gelu_tanh;
  const bool bare = s.flag("--disable-bias-linear", kModel);
  v.output_bias = v.ffn_bias = !bare;
  v.qkv_bias = s.flag("--add-qkv-bias", kModel) || !bare;
  if (s.flag("--qk-layernorm", kModel)) v.qk_norm = QkNorm::heads;
  spec.tied_embeddings = !s.flag("--untie-embeddings-and-output-weights", kModel);
}

void read_latent(Settings& s, models::ModelSpec& spec) {
  if (!s.flag("--multi-latent-attention", kModel)) return;
  models::Variants& v = spec.variants;
  v.kv_rank = s.count("--kv-lora-rank", kModel).value_or(32);
  v.q_rank = s.count("--q-lora-rank", kModel).value_or(0);
  v.rope_dim = s.count("--qk-pos-emb-head-dim", kModel).value_or(64);
  v.value_dim = s.count("--v-head-dim", kModel).value_or(128);
  spec.head_dim = s.count("--qk-head-dim", kModel).value_or(128) + v.rope_dim;
  spec.kv_heads = spec.heads;
  v.qk_norm = models::QkNorm::none;    // --qk-layernorm is of the latents there
}

void read_experts(Settings& s, models::ModelSpec& spec) {
  const auto experts = s.count("--num-experts", kModel, 1);
  if (!experts) return;
  models::Variants& v = spec.variants;
  v.experts = *experts;
  v.experts_per_token = s.count("--moe-router-topk", kModel).value_or(2);
  if (s.one_of("--moe-router-score-function", kModel, {"softmax", "sigmoid"}) == "sigmoid")
    v.scoring = models::Scoring::sigmoid;
  v.gate_scale = s.number("--moe-router-topk-scaling-factor", kModel).value_or(1);
  v.normalised_gates = !s.flag("--moe-router-pre-softmax", kModel);
  v.expert_groups = s.count("--moe-router-num-groups", kModel).value_or(0);
  v.groups_per_token = s.count("--moe-router-group-topk", kModel).value_or(0);
  v.shared_ffn = s.count("--moe-shared-expert-intermediate-size", kModel).value_or(0);
  v.shared_gate = s.flag("--moe-shared-expert-gate", kModel);
}

std::vector<bool> pattern_of(Facts& f, std::string_view key, std::int64_t layers,
                             EveryNth every_nth, bool otherwise) {
  const std::vector<bool> all(static_cast<std::size_t>(layers), otherwise);
  const Setting* const setting = f.settings.take(key, kModel);
  if (setting == nullptr) return all;
  const auto pattern = layer_pattern(setting->value(), layers, every_nth);
  if (!pattern)
    f.settings.problem(*setting, "a number, or a list with an entry for each of the layers, as "
                                 "([0]*3+[1]*1)*9");
  return pattern.value_or(all);
}

// Of --window-size "1023,0", how many keys a token sees: itself and those before. 0: no window.
std::int64_t window_of(Facts& f) {
  const Setting* const setting = f.settings.take("--window-size", kModel);
  if (setting == nullptr) return 0;
  std::string text = setting->value();
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  std::int64_t before = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, before);
  if (error == std::errc() && std::string_view(at, end) == ",0" && before >= 0 &&
      before < models::kMaxWidth)
    return before + 1;
  if (error == std::errc() && before == -1 && at != end) return 0;
  f.settings.problem(*setting, "tokens before and behind the own one, as 4095,0");
  return 0;
}

// Layers with a window: all, but every N-th where a number is stated.
std::vector<bool> windowed_layers(Facts& f, std::int64_t layers) {
  constexpr std::string_view kPattern = "--window-attn-skip-freq";
  const bool nth = std::ranges::any_of(f.settings.all(), [&](const Setting& one) {
    return one.key == kPattern && one.value().find_first_not_of("0123456789") == std::string::npos;
  });
  std::vector<bool> all = pattern_of(f, kPattern, layers, EveryNth::last, !nth);
  if (nth) all.flip();
  return all;
}

// Layers that differ in experts, rotation and windows become kinds.
void set_patterns(Facts& f, models::ModelSpec& spec, std::int64_t expert_ffn) {
  const std::int64_t window = window_of(f);
  const auto windowed = windowed_layers(f, spec.layers);
  const bool experts = spec.variants.experts > 0;
  const auto mixes = pattern_of(f, "--moe-layer-freq", spec.layers, EveryNth::first, experts);
  const auto still = pattern_of(f, "--no-rope-freq", spec.layers, EveryNth::last, false);
  std::vector<models::LayerKind> layers;
  for (std::size_t l = 0; l < mixes.size(); ++l) {
    const bool mixture = experts && mixes[l];
    models::LayerKind kind{mixture ? "moe" : "dense", mixture ? expert_ffn : spec.ffn_hidden,
                           spec.variants};
    if (mixture) {                     // their biases have a name of their own
      kind.variants.expert_bias = kind.variants.router_bias = kind.variants.ffn_bias;
      kind.variants.ffn_bias = false;
    } else {
      const models::Variants none;
      models::Variants& v = kind.variants;
      v.experts = v.experts_per_token = v.expert_groups = v.groups_per_token = v.shared_ffn = 0;
      v.shared_gate = false;
      v.scoring = none.scoring;
      v.normalised_gates = none.normalised_gates;
      v.gate_scale = none.gate_scale;
    }
    if (still[l]) {
      kind.variants.position_kind = models::Positions::none;
      kind.name += "_still";
    }
    if (window > 0 && windowed[l]) {
      kind.variants.window = window;
      kind.name += "_window";
    }
    layers.push_back(std::move(kind));
  }
  models::set_layers(spec, layers);
}

// The sizes that the vocabulary may have: NullTokenizer of core_v0.13 counts one token more than
// --vocab-size says, later ones do not.
std::vector<std::int64_t> vocabularies(Facts& f) {
  Settings& s = f.settings;
  const auto padded = s.count("--padded-vocab-size", kModel);
  const auto stated = s.count("--vocab-size", kModel);
  const auto tokenizer = s.text("--tokenizer-type", kModel);
  if (padded) return {*padded};
  if (stated && tokenizer == "NullTokenizer") return {*stated + 1, *stated};
  if (stated) return {*stated};
  if (tokenizer == "GPT2BPETokenizer") return {50257};
  if (tokenizer == "Llama2Tokenizer") return {32000};
  return {};
}

}  // namespace

void read_megatron_model(Facts& f) {
  Settings& s = f.settings;
  models::ModelSpec spec;
  spec.source = "options of Megatron-LM";
  const auto layers = s.count("--num-layers", kModel), hidden = s.count("--hidden-size", kModel),
             heads = s.count("--num-attention-heads", kModel);
  const auto vocabs = vocabularies(f);
  for (const auto& [key, found] : {std::pair{"--num-layers", layers.has_value()},
                                   {"--hidden-size", hidden.has_value()},
                                   {"--num-attention-heads", heads.has_value()}})
    if (!found && !s.has(key) && f.model.empty() && f.problems.empty())
      f.problems.push_back({"the script", key, "none",
                            "name the model with --model, or give the file that has it, too"});
  if (!layers || !hidden || !heads || *layers > models::kMaxLayers) return;
  spec.layers = *layers;
  spec.hidden = *hidden;
  spec.heads = *heads;
  read_variants(s, spec);
  const bool gated = models::is_gated(spec.variants.ffn);
  const std::int64_t usual = gated ? (4 * spec.hidden * 2 / 3) / 64 * 64 : 4 * spec.hidden;
  spec.ffn_hidden = s.count("--ffn-hidden-size", kModel).value_or(usual);
  const bool groups = s.flag("--group-query-attention", kModel);
  const auto query_groups = s.count("--num-query-groups", kModel);
  spec.kv_heads = groups ? query_groups.value_or(1) : spec.heads;
  spec.head_dim = s.count("--kv-channels", kModel).value_or(0);
  spec.positions = s.count("--max-position-embeddings", kModel).value_or(f.seq_len.value_or(1));
  read_latent(s, spec);
  read_experts(s, spec);
  const std::int64_t expert_ffn =
      s.count("--moe-ffn-hidden-size", kModel).value_or(spec.ffn_hidden);
  set_patterns(f, spec, expert_ffn);
  if (spec.kinds.empty() && spec.variants.experts > 0) spec.ffn_hidden = expert_ffn;
  spec.mtp_layers = f.mtp_layers.value_or(0);
  spec.vocab = vocabs.empty() ? 0 : vocabs.front();
  f.sizes = Sizes{std::move(spec), vocabs};
}

}  // namespace reports::imports
