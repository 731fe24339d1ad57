#include "models/spec.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace models {

using core::Problems;

namespace {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<Family, 2> kFamilies{{{Family::gpt2, "gpt2"}, {Family::chain, "chain"}}};
constexpr Names<Activation, 4> kActivations{{{Activation::identity, "identity"},
                                             {Activation::relu, "relu"},
                                             {Activation::tanh, "tanh"},
                                             {Activation::gelu_tanh, "gelu_tanh"}}};
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
  void check_gpt2();
  void check_chain();
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

void SpecChecker::check_gpt2() {
  range("layers", spec_.layers, 1, kMaxLayers);
  range("hidden", spec_.hidden, 1, kMaxWidth);
  range("heads", spec_.heads, 1, kMaxWidth);
  range("ffn_hidden", spec_.ffn_hidden, 1, kMaxWidth);
  range("vocab", spec_.vocab, 2, kMaxWidth);
  range("positions", spec_.positions, 1, kMaxWidth);
  if (!(spec_.layer_norm_epsilon > 0.0 && spec_.layer_norm_epsilon < 1.0)) {
    problems_.push_back({where_ + ": layer_norm_epsilon", "a number between 0 and 1",
                         fmt::format("{}", spec_.layer_norm_epsilon), "1e-5 is usual"});
  }
  if (!problems_.empty()) return;
  if (spec_.hidden % spec_.heads != 0) {
    problems_.push_back({where_ + ": heads", fmt::format("a divisor of hidden = {}", spec_.hidden),
                         std::to_string(spec_.heads), ""});
  }
  if (spec_.kv_heads != spec_.heads) {
    problems_.push_back({where_ + ": kv_heads",
                         fmt::format("heads = {} (gpt2 does not group queries)", spec_.heads),
                         std::to_string(spec_.kv_heads), "leave it out"});
  }
  if (spec_.default_seq_len > spec_.positions) {
    problems_.push_back({where_ + ": default_seq_len",
                         fmt::format("at most positions = {}", spec_.positions),
                         std::to_string(spec_.default_seq_len), ""});
  }
  const auto h = static_cast<double>(spec_.hidden);
  const double layer = h * (4.0 * h + 2.0 * static_cast<double>(spec_.ffn_hidden) + 13.0);
  const double tables = h * static_cast<double>(2 * spec_.vocab + spec_.positions);
  check_total(layer * static_cast<double>(spec_.layers) + tables);
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

Problems SpecChecker::check() && {
  range("default_seq_len", spec_.default_seq_len, 1, kMaxWidth);
  range("default_global_batch", spec_.default_global_batch, 1, kMaxWidth);
  if (spec_.family == Family::gpt2) check_gpt2();
  if (spec_.family == Family::chain) check_chain();
  return std::move(problems_);
}

}  // namespace

std::string_view name(Family family) { return name_in(kFamilies, family); }
std::string_view name(Activation activation) { return name_in(kActivations, activation); }
std::string_view name(Loss loss) { return name_in(kLosses, loss); }

std::optional<Family> family_from_name(std::string_view text) { return find_in(kFamilies, text); }
std::optional<Activation> activation_from_name(std::string_view text) {
  return find_in(kActivations, text);
}
std::optional<Loss> loss_from_name(std::string_view text) { return find_in(kLosses, text); }

Problems check_spec(const ModelSpec& spec) { return SpecChecker(spec).check(); }

}  // namespace models
