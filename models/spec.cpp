#include "models/spec.hpp"

#include <array>
#include <numeric>
#include <utility>

#include "core/check.hpp"

namespace models {

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
constexpr Names<Activation, 6> kActivations{{{Activation::identity, "identity"},
                                             {Activation::relu, "relu"},
                                             {Activation::tanh, "tanh"},
                                             {Activation::gelu_tanh, "gelu_tanh"},
                                             {Activation::gelu_erf, "gelu_erf"},
                                             {Activation::relu_squared, "relu_squared"}}};
constexpr Names<Norm, 2> kNorms{{{Norm::layer_norm, "layer_norm"}, {Norm::rms_norm, "rms_norm"}}};
constexpr Names<Positions, 4> kPositions{{{Positions::learned, "learned"},
                                          {Positions::rotary, "rotary"},
                                          {Positions::alibi, "alibi"},
                                          {Positions::none, "none"}}};
constexpr Names<Ffn, 4> kFfns{{{Ffn::gelu, "gelu"},
                               {Ffn::swiglu, "swiglu"},
                               {Ffn::geglu, "geglu"},
                               {Ffn::clamped_swiglu, "clamped_swiglu"}}};
constexpr Names<Residual, 5> kResiduals{{{Residual::pre, "pre"},
                                         {Residual::parallel, "parallel"},
                                         {Residual::post, "post"},
                                         {Residual::post_branch, "post_branch"},
                                         {Residual::sandwich, "sandwich"}}};
constexpr Names<QkNorm, 4> kQkNorms{{{QkNorm::none, "none"},
                                     {QkNorm::heads, "heads"},
                                     {QkNorm::plain, "plain"},
                                     {QkNorm::width, "width"}}};
constexpr Names<Scoring, 2> kScorings{
    {{Scoring::softmax, "softmax"}, {Scoring::sigmoid, "sigmoid"}}};
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

}  // namespace

std::string_view name(Family family) { return name_in(kFamilies, family); }
std::string_view name(Activation activation) { return name_in(kActivations, activation); }
std::string_view name(Loss loss) { return name_in(kLosses, loss); }
std::string_view name(Norm norm) { return name_in(kNorms, norm); }
std::string_view name(Positions positions) { return name_in(kPositions, positions); }
std::string_view name(Ffn ffn) { return name_in(kFfns, ffn); }
std::string_view name(Residual residual) { return name_in(kResiduals, residual); }
std::string_view name(QkNorm norm) { return name_in(kQkNorms, norm); }
std::string_view name(Scoring scoring) { return name_in(kScorings, scoring); }

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
      v.qk_norm = family == Family::qwen3 ? QkNorm::heads : QkNorm::none;
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

}  // namespace models
