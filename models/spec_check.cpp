// What check_spec refuses: sizes out of range, and what contradicts itself.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "models/layer_kinds.hpp"

namespace models {

using core::Problems;

namespace {

class SpecChecker {
 public:
  explicit SpecChecker(const ModelSpec& spec)
      : spec_(spec), where_(spec.name.empty() ? "model" : "model " + spec.name) {}

  Problems check() &&;

 private:
  void range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high);
  void need(bool holds, const char* field, std::string_view expected, std::string_view found);
  void check_transformer();
  void check_variants();
  void check_groups(const Variants& v);
  void check_layer(const LayerView& kind);
  void check_attention(const Variants& v);
  void check_latent(const Variants& v);
  void check_kinds();
  void check_agreement(const LayerKind& kind);
  double weights_of(const LayerView& kind) const;
  void check_chain();
  void check_graph();
  void check_total(double parameters);

  const ModelSpec& spec_;
  std::string where_;
  Problems problems_;
};

void SpecChecker::range(const char* field, std::int64_t value, std::int64_t low,
                        std::int64_t high) {
  if (value >= low && value <= high) return;
  problems_.push_back({where_ + ": " + field, fmt::format("an integer from {} to {}", low, high),
                       std::to_string(value), ""});
}

void SpecChecker::need(bool holds, const char* field, std::string_view expected,
                       std::string_view found) {
  if (holds) return;
  problems_.push_back({where_ + ": " + field, std::string(expected), std::string(found), ""});
}

void SpecChecker::check_total(double parameters) {
  if (parameters <= kMaxParameters) return;
  problems_.push_back({where_, fmt::format("at most {:.0e} parameters", kMaxParameters),
                       fmt::format("{:.2e}", parameters), "check layers and widths"});
}

void SpecChecker::check_transformer() {
  range("layers", spec_.layers, 1, kMaxLayers);
  range("hidden", spec_.hidden, 1, kMaxWidth);
  range("heads", spec_.heads, 1, kMaxWidth);
  range("kv_heads", spec_.kv_heads, 1, kMaxWidth);
  range("head_dim", spec_.head_dim, 0, kMaxWidth);
  const bool featured = spec_.variants.token_features > 0;
  range("vocab", spec_.vocab, featured ? 0 : 2, featured ? 0 : kMaxWidth);
  range("positions", spec_.positions, 1, kMaxWidth);
  if (!(spec_.layer_norm_epsilon > 0.0 && spec_.layer_norm_epsilon < 1.0)) {
    problems_.push_back({where_ + ": layer_norm_epsilon", "a number between 0 and 1",
                         fmt::format("{}", spec_.layer_norm_epsilon), "1e-5 is usual"});
  }
  const bool predicts = has_language_head(spec_) && spec_.loss == Loss::cross_entropy &&
                        spec_.variants.causal;
  range("mtp_layers", spec_.mtp_layers, 0, predicts ? kMaxMtpLayers : 0);
  check_variants();
  if (!problems_.empty()) return;
  if (spec_.head_dim == 0 && spec_.hidden % spec_.heads != 0) {
    problems_.push_back({where_ + ": heads", fmt::format("a divisor of hidden = {}", spec_.hidden),
                         std::to_string(spec_.heads), ""});
  }
  if (spec_.heads % spec_.kv_heads != 0) {
    problems_.push_back({where_ + ": kv_heads", fmt::format("a divisor of heads = {}", spec_.heads),
                         std::to_string(spec_.kv_heads), "leave it out for one per head"});
  }
  const bool table = spec_.variants.position_kind == Positions::learned;
  if (table && spec_.default_seq_len > spec_.positions) {
    problems_.push_back({where_ + ": default_seq_len",
                         fmt::format("at most positions = {}", spec_.positions),
                         std::to_string(spec_.default_seq_len), ""});
  }
  if (!problems_.empty()) return;
  const std::int64_t v = spec_.vocab, p = spec_.positions, types = spec_.variants.token_types;
  double parameters = static_cast<double>(spec_.hidden) * static_cast<double>(2 * v + p + types);
  std::vector<double> weights;
  for_each_kind(spec_, [&](const LayerView& kind) { weights.push_back(weights_of(kind)); });
  for (const int kind : kind_of_layers(spec_))
    parameters += weights[static_cast<std::size_t>(kind)];
  check_total(parameters);
}

// About as many as a layer has: matrices, router, biases and norms.
double SpecChecker::weights_of(const LayerView& kind) const {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double h = number(spec_.hidden), d = number(head_dim_of(spec_));
  const Variants& v = kind.variants;
  const double attention = 2.0 * d * (number(spec_.heads) + number(spec_.kv_heads)) +
                           number(v.q_rank + v.kv_rank) * (1 + 2 * number(spec_.heads) * d / h);
  const double matrices = is_gated(v.ffn) ? 3.0 : 2.0;
  const double experts = number(std::max<std::int64_t>(v.experts, 1));
  const double ffn = matrices * (experts * number(kind.ffn_hidden) + number(v.shared_ffn));
  return h * (attention + ffn + experts + 13.0);
}

void SpecChecker::check_variants() {
  const Variants& v = spec_.variants;
  range("token_types", v.token_types, 0, kMaxWidth);
  range("token_features", v.token_features, 0, kMaxWidth);
  range("decoder_hidden", v.decoder_hidden, v.token_features > 0 ? 1 : 0,
        v.token_features > 0 ? kMaxWidth : 0);
  const bool known = spec_.activation == Activation::gelu_tanh ||
                     spec_.activation == Activation::gelu_erf ||
                     spec_.activation == Activation::relu ||
                     spec_.activation == Activation::relu_squared;
  need(known, "activation", "gelu_tanh, gelu_erf, relu or relu_squared", name(spec_.activation));
  if (spec_.kinds.empty() && spec_.runs.empty()) {
    check_layer({{}, spec_.ffn_hidden, v});
    return;
  }
  const std::string model = where_;
  for (const LayerKind& kind : spec_.kinds) {
    where_ = fmt::format("{}: kinds ({})", model, kind.name);
    check_layer({kind.name, kind.ffn_hidden, kind.variants});
    check_agreement(kind);
  }
  where_ = model;
  check_kinds();
}

void SpecChecker::check_groups(const Variants& v) {
  const std::int64_t groups = v.expert_groups, chosen = v.groups_per_token;
  if (groups == 0 && chosen == 0) return;
  need(v.experts > 0 && groups > 0 && v.experts % groups == 0, "expert_groups",
       "a divisor of the experts", std::to_string(groups));
  if (groups == 0) return;
  need(chosen >= 1 && chosen <= groups && chosen * (v.experts / groups) >= v.experts_per_token,
       "groups_per_token", "as many groups as hold a token's experts, of those there are",
       std::to_string(chosen));
}

void SpecChecker::check_layer(const LayerView& kind) {
  const Variants& v = kind.variants;
  range("ffn_hidden", kind.ffn_hidden, 1, kMaxWidth);
  range("experts", v.experts, 0, kMaxExperts);
  range("experts_per_token", v.experts_per_token, v.experts > 0 ? 1 : 0, v.experts);
  need(v.rotary_base > 1.0 && v.rotary_base <= kMaxRotaryBase, "rotary_base",
       "a number above 1, at most 1e12", fmt::format("{}", v.rotary_base));
  need(v.rotary_fraction > 0.0 && v.rotary_fraction <= 1.0, "rotary_fraction",
       "a number above 0, at most 1", "another");
  const bool branches = v.residual != Residual::parallel && v.residual != Residual::post;
  need(branches || v.experts == 0, "residual", "pre, post_branch or sandwich with experts",
       name(v.residual));
  need(v.experts == 0 || is_gated(v.ffn), "ffn", "swiglu, geglu or clamped_swiglu with experts",
       name(v.ffn));
  need(v.experts == 0 || !v.ffn_bias, "ffn_bias", "false with experts (they have expert_bias)",
       "true");
  check_attention(v);
  if (v.kv_rank > 0) check_latent(v);
  const bool mixes = v.scoring != Scoring::softmax || !v.normalised_gates || v.gate_scale != 1 ||
                     v.router_bias || v.expert_bias || v.shared_ffn > 0;
  need(v.experts > 0 || !mixes, "experts",
       "at least 1 with scoring, normalised_gates, gate_scale, router_bias, expert_bias or "
       "shared_ffn",
       "0");
  check_groups(v);
  need(v.experts_per_token == 1 || !v.gated_inputs, "gated_inputs",
       "false unless a token takes one expert", "true");
  need(v.shared_ffn > 0 || !v.shared_gate, "shared_gate", "false without shared_ffn", "true");
  need(v.residual == Residual::parallel || !v.shared_norm, "shared_norm",
       "false unless residual is parallel", "true");
  need(!v.norm_offset || v.qk_norm != QkNorm::width, "qk_norm",
       "heads, plain or none with norm_offset", "width");
  need(v.norm == Norm::rms_norm || !v.norm_offset, "norm_offset", "false with layer_norm", "true");
}

// What restricts the keys that a token sees looks back, and counts places.
void SpecChecker::check_attention(const Variants& v) {
  range("window", v.window, 0, kMaxWidth);
  range("chunk", v.chunk, 0, v.window > 0 ? 0 : kMaxWidth);
  const bool within = v.window > 0 || v.chunk > 0;
  need(!within || v.causal, "causal", "true with a window or chunks", "false");
  need(!within || v.position_kind != Positions::alibi, "position_kind",
       "another than alibi with a window or chunks", "alibi");
}

// The spec's head_dim is that of queries and keys.
void SpecChecker::check_latent(const Variants& v) {
  range("head_dim", spec_.head_dim, 2, kMaxWidth);
  range("kv_heads", spec_.kv_heads, spec_.heads, spec_.heads);
  range("rope_dim", v.rope_dim, 2, spec_.head_dim - 1);
  range("value_dim", v.value_dim, 1, spec_.head_dim);
  need(v.rope_dim % 2 == 0, "rope_dim", "an even number", std::to_string(v.rope_dim));
  need(v.position_kind == Positions::rotary, "position_kind", "rotary with kv_rank",
       name(v.position_kind));
  need(v.qk_norm == QkNorm::none, "qk_norm", "none with kv_rank", name(v.qk_norm));
  need(!v.qkv_bias, "qkv_bias", "false with kv_rank", "true");
}

// What the model's ends have or leave out, and its layers therefore do not choose one by one.
void SpecChecker::check_agreement(const LayerKind& kind) {
  const Variants &own = kind.variants, &model = spec_.variants;
  const auto agree = [&](auto value, const char* field) {
    need(std::invoke(value, own) == std::invoke(value, model), field,
         "as the model's: its ends depend on it", "another");
  };
  agree(&Variants::norm, "norm");
  agree(&Variants::norm_bias, "norm_bias");
  agree(&Variants::norm_offset, "norm_offset");
  agree(&Variants::embedding_scale, "embedding_scale");
  agree(&Variants::logit_scale, "logit_scale");
  agree(&Variants::head_bias, "head_bias");
  agree(&Variants::logit_soft_cap, "logit_soft_cap");
  agree(&Variants::embedding_norm, "embedding_norm");
  agree(&Variants::pooler, "pooler");
  agree(&Variants::token_types, "token_types");
  agree(&Variants::token_features, "token_features");
  agree(&Variants::decoder_hidden, "decoder_hidden");
  agree([](const Variants& v) { return v.position_kind == Positions::learned; }, "position_kind");
  agree([](const Variants& v) { return v.residual == Residual::post; }, "residual");
}

void SpecChecker::check_kinds() {
  const std::int64_t kinds = std::ssize(spec_.kinds);
  range("kinds", kinds, 2, kMaxLayerKinds);
  std::vector<bool> used(spec_.kinds.size(), false);
  for (std::size_t r = 0; r < spec_.runs.size(); ++r) {
    const LayerRun& run = spec_.runs[r];
    const std::string field = fmt::format("runs/{}", r);
    range((field + "/times").c_str(), run.times, 1, kMaxLayers);
    need(!run.kinds.empty(), (field + "/kinds").c_str(), "at least one kind", "none");
    for (const int kind : run.kinds) {
      range((field + "/kinds").c_str(), kind, 0, kinds - 1);
      if (kind >= 0 && kind < kinds) used[static_cast<std::size_t>(kind)] = true;
    }
  }
  if (!problems_.empty()) return;
  if (const std::int64_t sum = layers_of_runs(spec_); sum != spec_.layers)
    need(false, "runs", fmt::format("layers = {} layers in all", spec_.layers),
         std::to_string(sum));
  for (std::size_t k = 0; k < used.size(); ++k) {
    const LayerKind& kind = spec_.kinds[k];
    need(used[k], "kinds", "kinds that some run has", kind.name);
    for (std::size_t other = 0; other < k; ++other) {
      const LayerKind& before = spec_.kinds[other];
      need(kind.name != before.name, "kinds", "a name of its own for each kind", kind.name);
      need(kind.variants != before.variants || kind.ffn_hidden != before.ffn_hidden, "kinds",
           "kinds that differ", fmt::format("{} and {} alike", before.name, kind.name));
    }
  }
}

void SpecChecker::check_chain() {
  const auto entries = static_cast<std::int64_t>(spec_.widths.size());
  if (entries < 2 || entries > kMaxLayers + 1) {
    problems_.push_back({where_ + ": widths", fmt::format("2 to {} widths", kMaxLayers + 1),
                         std::to_string(entries), "inputs first, then one per layer"});
    return;
  }
  if (spec_.layers != 0) range("layers", spec_.layers, entries - 1, entries - 1);
  double parameters = 0.0;
  for (std::size_t i = 0; i < spec_.widths.size(); ++i) {
    range(("widths/" + std::to_string(i)).c_str(), spec_.widths[i], 1, kMaxWidth);
    if (problems_.size() > 8) return;  // the rest would say the same
    if (i == 0) continue;
    parameters += static_cast<double>(spec_.widths[i]) *
                  (static_cast<double>(spec_.widths[i - 1]) + 1.0);
  }
  if (spec_.loss == Loss::cross_entropy && spec_.widths.back() < 2) {
    problems_.push_back({where_ + ": widths", "a last width >= 2 under cross_entropy",
                         std::to_string(spec_.widths.back()), "or use squared_error"});
  }
  range("default_seq_len", spec_.default_seq_len, 1, 1);
  check_total(parameters);
}

void SpecChecker::check_graph() {
  const GraphAnalysis analysis = analyse(spec_.graph);
  for (const GraphIssue& issue : analysis.issues) {
    std::string where = where_;
    if (issue.at >= 0)
      where += fmt::format(": operators/{} ({})", issue.at,
                           spec_.graph.operators[static_cast<std::size_t>(issue.at)].name);
    if (!issue.field.empty()) where += fmt::format(": {}", issue.field);
    problems_.push_back({std::move(where), issue.expected, issue.found, issue.fix});
  }
  if (!problems_.empty()) return;
  const std::int64_t layers = std::ssize(analysis.layers);
  if (spec_.layers != 0) range("layers", spec_.layers, layers, layers);
  range("default_seq_len", spec_.default_seq_len, 1, 1);
  const Shape& y = analysis.output_shape;
  if (spec_.loss == Loss::cross_entropy && (y.size() == 3 || y.back() < 2))
    problems_.push_back({where_ + ": operators",
                         "a result of 2 classes or more under cross_entropy", to_text(y),
                         "flatten and linear make classes, or use squared_error"});
  const std::int64_t words = spec_.graph.vocabulary;
  if (words > 0 && (spec_.loss != Loss::cross_entropy || y.size() != 2 || y.back() != words))
    problems_.push_back({where_ + ": operators",
                         "rows of " + std::to_string(words) + " columns, one for each token of "
                         "the vocabulary, under cross_entropy", to_text(y),
                         "a linear operator of so many features makes them"});
  double parameters = 0.0;
  for (const int i : analysis.embeddings)
    parameters += static_cast<double>(words) *
                  static_cast<double>(spec_.graph.operators[static_cast<std::size_t>(i)].width);
  for (const int i : analysis.order) {
    const auto at = static_cast<std::size_t>(i);
    const OperatorSpec& op = spec_.graph.operators[at];
    if (op.kind == OperatorSpec::Kind::convolution || op.kind == OperatorSpec::Kind::linear)
      parameters += static_cast<double>(op.width) *
                    (static_cast<double>(weight_inputs(op, analysis.input_shapes[at])) + 1.0);
  }
  check_total(parameters);
}

Problems SpecChecker::check() && {
  range("default_seq_len", spec_.default_seq_len, 1, kMaxWidth);
  range("default_global_batch", spec_.default_global_batch, 1, kMaxWidth);
  if (is_transformer(spec_.family)) check_transformer();
  else need(spec_.kinds.empty() && spec_.runs.empty(), "kinds", "none but in transformers", "some");
  if (spec_.family == Family::chain) check_chain();
  if (spec_.family == Family::graph) check_graph();
  return std::move(problems_);
}

}  // namespace

Problems check_spec(const ModelSpec& spec) { return SpecChecker(spec).check(); }

}  // namespace models
