#include "models/spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace models {

using core::Problems;

namespace {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<Family, 13> kFamilies{{{Family::gpt2, "gpt2"},
                                      {Family::opt, "opt"},
                                      {Family::bloom, "bloom"},
                                      {Family::llama, "llama"},
                                      {Family::qwen2, "qwen2"},
                                      {Family::qwen3, "qwen3"},
                                      {Family::mixtral, "mixtral"},
                                      {Family::mpt, "mpt"},
                                      {Family::gpt_neox, "gpt_neox"},
                                      {Family::bert, "bert"},
                                      {Family::uce, "uce"},
                                      {Family::chain, "chain"},
                                      {Family::graph, "graph"}}};
constexpr Names<Activation, 5> kActivations{{{Activation::identity, "identity"},
                                             {Activation::relu, "relu"},
                                             {Activation::tanh, "tanh"},
                                             {Activation::gelu_tanh, "gelu_tanh"},
                                             {Activation::gelu_erf, "gelu_erf"}}};
constexpr Names<Norm, 2> kNorms{{{Norm::layer_norm, "layer_norm"}, {Norm::rms_norm, "rms_norm"}}};
constexpr Names<Positions, 4> kPositions{{{Positions::learned, "learned"},
                                          {Positions::rotary, "rotary"},
                                          {Positions::alibi, "alibi"},
                                          {Positions::none, "none"}}};
constexpr Names<Ffn, 2> kFfns{{{Ffn::gelu, "gelu"}, {Ffn::swiglu, "swiglu"}}};
constexpr Names<Residual, 3> kResiduals{
    {{Residual::pre, "pre"}, {Residual::parallel, "parallel"}, {Residual::post, "post"}}};
constexpr Names<Loss, 2> kLosses{
    {{Loss::cross_entropy, "cross_entropy"}, {Loss::squared_error, "squared_error"}}};

template <class Enum, std::size_t N>
std::string_view name_in(const Names<Enum, N>& names, Enum value) {
  for (const auto& [known, text] : names)
    if (known == value) return text;
  PLANNER_CHECK(false, "an enumerator without a name");
}

template <class Enum, std::size_t N>
std::optional<Enum> find_in(const Names<Enum, N>& names, std::string_view text) {
  for (const auto& [value, known] : names)
    if (known == text) return value;
  return std::nullopt;
}

class SpecChecker {
 public:
  explicit SpecChecker(const ModelSpec& spec)
      : spec_(spec), where_(spec.name.empty() ? "model" : "model " + spec.name) {}

  Problems check() &&;

 private:
  void range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high);
  void check_transformer();
  void check_variants();
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
  range("ffn_hidden", spec_.ffn_hidden, 1, kMaxWidth);
  const bool featured = spec_.variants.token_features > 0;
  range("vocab", spec_.vocab, featured ? 0 : 2, featured ? 0 : kMaxWidth);
  range("positions", spec_.positions, 1, kMaxWidth);
  if (!(spec_.layer_norm_epsilon > 0.0 && spec_.layer_norm_epsilon < 1.0)) {
    problems_.push_back({where_ + ": layer_norm_epsilon", "a number between 0 and 1",
                         fmt::format("{}", spec_.layer_norm_epsilon), "1e-5 is usual"});
  }
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
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double h = number(spec_.hidden), d = number(head_dim_of(spec_));
  const double attention = 2.0 * d * (number(spec_.heads) + number(spec_.kv_heads));
  const double matrices = spec_.variants.ffn == Ffn::swiglu ? 3.0 : 2.0;
  const double experts = number(std::max<std::int64_t>(spec_.variants.experts, 1));
  const double ffn = experts * matrices * number(spec_.ffn_hidden);
  const double layer = h * (attention + ffn + experts + 13.0);
  const double tables = h * number(2 * spec_.vocab + spec_.positions + spec_.variants.token_types);
  check_total(layer * number(spec_.layers) + tables);
}

void SpecChecker::check_variants() {
  const Variants& v = spec_.variants;
  range("token_types", v.token_types, 0, kMaxWidth);
  range("token_features", v.token_features, 0, kMaxWidth);
  range("decoder_hidden", v.decoder_hidden, v.token_features > 0 ? 1 : 0,
        v.token_features > 0 ? kMaxWidth : 0);
  range("experts", v.experts, 0, kMaxExperts);
  range("experts_per_token", v.experts_per_token, v.experts > 0 ? 1 : 0, v.experts);
  const auto need = [&](bool holds, const char* field, const char* expected, const char* found) {
    if (!holds) problems_.push_back({where_ + ": " + field, expected, found, ""});
  };
  need(v.rotary_fraction > 0.0 && v.rotary_fraction <= 1.0, "rotary_fraction",
       "a number above 0, at most 1", "another");
  need(v.residual == Residual::pre || v.experts == 0, "residual", "pre with experts",
       std::string(name(v.residual)).c_str());
  need(v.experts == 0 || v.ffn == Ffn::swiglu, "ffn", "swiglu with experts", "gelu");
  need(v.experts == 0 || !v.ffn_bias, "ffn_bias", "false with experts", "true");
  const bool known = spec_.activation == Activation::gelu_tanh ||
                     spec_.activation == Activation::gelu_erf ||
                     spec_.activation == Activation::relu;
  need(known, "activation", "gelu_tanh, gelu_erf or relu",
       std::string(name(spec_.activation)).c_str());
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
  double parameters = 0.0;
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
  if (spec_.family == Family::chain) check_chain();
  if (spec_.family == Family::graph) check_graph();
  return std::move(problems_);
}

}  // namespace

std::string_view name(Family family) { return name_in(kFamilies, family); }
std::string_view name(Activation activation) { return name_in(kActivations, activation); }
std::string_view name(Loss loss) { return name_in(kLosses, loss); }
std::string_view name(Norm norm) { return name_in(kNorms, norm); }
std::string_view name(Positions positions) { return name_in(kPositions, positions); }
std::string_view name(Ffn ffn) { return name_in(kFfns, ffn); }
std::string_view name(Residual residual) { return name_in(kResiduals, residual); }

std::optional<Family> family_from_name(std::string_view text) { return find_in(kFamilies, text); }
std::optional<Activation> activation_from_name(std::string_view text) {
  return find_in(kActivations, text);
}
std::optional<Loss> loss_from_name(std::string_view text) { return find_in(kLosses, text); }

std::int64_t head_dim_of(const ModelSpec& spec) {
  return spec.head_dim > 0 ? spec.head_dim : spec.hidden / spec.heads;
}

std::int64_t routing_window(std::int64_t experts, std::int64_t chosen) {
  return experts / std::gcd(experts, chosen);
}

std::int64_t layers_of(const ModelSpec& spec) {
  if (spec.layers > 0) return spec.layers;
  if (spec.family == Family::graph) return std::ssize(analyse(spec.graph).layers);
  return std::ssize(spec.widths) - 1;
}

Activation activation_of(Family family) {
  if (family == Family::uce || family == Family::opt) return Activation::relu;
  const bool exact =
      family == Family::mpt || family == Family::gpt_neox || family == Family::bert;
  return exact ? Activation::gelu_erf : Activation::gelu_tanh;
}

Variants variants_of(Family family) {
  Variants v;
  switch (family) {
    case Family::gpt2:
    case Family::opt:
    case Family::chain:
    case Family::graph: return v;
    case Family::bloom:
      v.position_kind = Positions::alibi;
      v.embedding_norm = true;
      return v;
    case Family::llama:
    case Family::qwen2:
    case Family::qwen3:
    case Family::mixtral:
      v.norm = Norm::rms_norm;
      v.position_kind = Positions::rotary;
      v.ffn = Ffn::swiglu;
      v.output_bias = v.ffn_bias = v.norm_bias = false;
      v.qkv_bias = family == Family::qwen2;
      v.qk_norm = family == Family::qwen3;
      return v;
    case Family::mpt:
      v.position_kind = Positions::alibi;
      v.qkv_bias = v.output_bias = v.ffn_bias = v.norm_bias = false;
      return v;
    case Family::gpt_neox:
      v.position_kind = Positions::rotary;
      v.rotary_fraction = 0.25;
      v.residual = Residual::parallel;
      return v;
    case Family::bert:
      v.residual = Residual::post;
      v.causal = false;
      v.embedding_norm = v.pooler = true;
      v.token_types = 2;
      return v;
    case Family::uce:  // its sines of positions are commented out in the authors' model.py
      v.residual = Residual::post;
      v.position_kind = Positions::none;
      v.causal = false;
      v.token_features = 5120;
      v.decoder_hidden = 1024;
      return v;
  }
  return v;
}

Problems check_spec(const ModelSpec& spec) { return SpecChecker(spec).check(); }

}  // namespace models
