// The one entry to the builders: everything that a user can get wrong is refused here, so that the
// builders may rely on their arguments.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/builder.hpp"
#include "models/layer_kinds.hpp"
#include "models/splits.hpp"

namespace models {

using core::Problem;
using core::Problems;

namespace {

constexpr double kMaxSavedElements = 1e15;  // of one sample, all layers: bytes stay below 2^63

// "1, 2, 5, 10": the numbers up to 64 that hold.
std::string degrees(auto&& holds) {
  std::string text;
  for (std::int64_t d = 1; d <= 64; ++d)
    if (holds(d)) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return text;
}

void check_lora(const ModelSpec& spec, const GraphOptions& options, Problems& problems) {
  const std::vector<std::string_view> all = lora_targets_of(spec);
  const std::string names = fmt::format("{}", fmt::join(all, ", "));
  for (const std::string& target : options.lora_targets) {
    const auto known = std::ranges::count(all, target);
    const auto given = std::ranges::count(options.lora_targets, target);
    if (known == 1 && given == 1) continue;
    problems.push_back({"lora_targets", fmt::format("each of {} at most once", names),
                        "\"" + target + "\"", "for example q,v"});
  }
  if (options.lora_targets.empty())
    problems.push_back({"lora_targets", "at least one of " + names, "none", "use q,k,v,o"});
}

// Encoder and decoder of such a model are not divided, and their gradients not summed over ranks.
void check_features(const ModelSpec& spec, const GraphOptions& options, Problems& problems) {
  if (options.sequence_parallel)
    problems.push_back({"sequence_parallel", "false for " + spec.name + " (tokens are features)",
                        "true", "pin sequence_parallel=false"});
}

void check_transformer(const ModelSpec& spec, const GraphOptions& options, Problems& problems) {
  if (!divides_layers(spec, options.tensor))
    problems.push_back({"tensor",
                        fmt::format("{}, and of the MLP's width {}", heads_expected(spec),
                                    fmt::join(ffn_widths(spec), " and ")),
                        std::to_string(options.tensor), "use " + degrees([&](std::int64_t d) {
                          return divides_layers(spec, d);
                        })});
  if (spec.variants.token_features > 0) check_features(spec, options, problems);
  const bool table = spec.variants.position_kind == Positions::learned;
  if (table && options.seq_len > spec.positions) {
    problems.push_back(
        {"seq_len", fmt::format("at most {} positions of {}", spec.positions, spec.name),
         std::to_string(options.seq_len),
         fmt::format("use --seq {} or a model with more positions", spec.positions)});
  }
  std::int64_t widest = 0;             // of all experts that a token meets
  for_each_kind(spec, [&](const LayerView& kind) {
    const auto active = std::max<std::int64_t>(kind.variants.experts_per_token, 1);
    widest = std::max(widest, kind.ffn_hidden * active);
  });
  const double width = 16.0 * static_cast<double>(spec.hidden) + 3.0 * static_cast<double>(widest) +
                       3.0 * static_cast<double>(spec.heads * head_dim_of(spec)) +
                       static_cast<double>(options.seq_len);
  const double saved = static_cast<double>(options.seq_len) *
                       (width * static_cast<double>(spec.layers) + static_cast<double>(spec.vocab));
  if (saved > kMaxSavedElements) {
    problems.push_back(
        {"seq_len", fmt::format("at most {:.0e} elements kept per sample", kMaxSavedElements),
         fmt::format("about {:.1e}", saved), "use a shorter sequence"});
  }
  if (options.lora_rank > spec.hidden) {
    problems.push_back({"lora_rank", fmt::format("at most hidden = {}", spec.hidden),
                        std::to_string(options.lora_rank), "ranks of 2 to 64 are usual"});
  }
  if (options.lora_rank > 0) check_lora(spec, options, problems);
}

// Chains and operator graphs.
void check_no_sequence(const ModelSpec& spec, const GraphOptions& options, Problems& problems) {
  const bool chain = spec.family == Family::chain;
  const std::string what = chain ? "a chain" : "an operator graph";
  if (options.tensor > 1) {
    problems.push_back({"tensor", "1 for " + what + " (its layers do not come in pairs to divide)",
                        std::to_string(options.tensor), "pin tensor=1"});
  }
  if (options.seq_len != 1) {
    problems.push_back({"seq_len",
                        "1 for " + what + " (a sample is one " +
                            (chain ? "row of features)" : "input, not a sequence)"),
                        std::to_string(options.seq_len), "leave --seq out"});
  }
  if (options.lora_rank > 0) {
    problems.push_back({"lora_rank", "0 for " + what + " (LoRA adapts attention)",
                        std::to_string(options.lora_rank), "leave --lora-rank out"});
  }
}

// Divisions of the vocabulary that no builder makes.
void check_not_built(const GraphOptions& options, Problems& problems) {
  if (options.sequence_parallel && options.tensor > 0 && options.seq_len % options.tensor != 0)
    problems.push_back({"sequence_parallel",
                        fmt::format("a divisor of {} tokens as tensor degree", options.seq_len),
                        std::to_string(options.tensor), "pin sequence_parallel=false"});
  if (options.context < 1 || options.seq_len % options.context != 0)
    problems.push_back({"context", "a divisor of " + std::to_string(options.seq_len) + " tokens",
                        std::to_string(options.context), "pin context=1"});
}

// Every rank of an expert group sends each other one as many rows.
void check_experts(const ModelSpec& spec, const GraphOptions& options, Problems& problems) {
  if (options.expert == 1) return;
  const std::string found = std::to_string(options.expert);
  const std::int64_t experts = expert_divisor(spec);
  if (experts == 0)
    return problems.push_back({"expert", "1 for a model without experts", found, "pin expert=1"});
  if (options.expert < 1 || experts % options.expert != 0)
    return problems.push_back({"expert", fmt::format("a divisor of {} experts", experts), found,
                               "use " + degrees([&](std::int64_t d) {
                                 return experts % d == 0;
                               })});
  const bool over = options.expert_over_tensor();
  if (over && (!options.sequence_parallel || options.expert % options.tensor != 0))
    return problems.push_back({"expert_tensor", "0 without sequence_parallel, or where tensor does "
                               "not divide expert", "1", "pin expert_tensor=0"});
  const std::int64_t ranks = options.context * (over ? options.tensor : 1);
  const std::int64_t copies = token_copies_divisor(spec, options.seq_len / ranks);
  if (copies % options.expert != 0)
    problems.push_back({"expert",
                        fmt::format("a divisor of the {} copies of a sample's tokens", copies),
                        found, "choose a sequence length that it divides"});
}

void check_splits(const ModelSpec& spec, const GraphOptions& options, Problems& problems) {
  if (options.split == 1 && options.splits.empty()) return;
  if (options.split < 1 || spec.family != Family::graph)
    return problems.push_back({"split", spec.family == Family::graph
                                            ? "an integer >= 1"
                                            : "1 for another model than an operator graph",
                               std::to_string(options.split), "leave split and splits out"});
  const auto splits =
      complete_splits(spec.graph, analyse(spec.graph), options.splits, options.split);
  if (splits.ok()) return;
  for (const core::Problem& p : splits.problems()) problems.push_back(p);
}

Problems check_options(const ModelSpec& spec, const GraphOptions& options) {
  Problems problems;
  if (options.tensor < 1)
    problems.push_back({"tensor", "an integer >= 1", std::to_string(options.tensor), ""});
  if (options.seq_len < 1)
    problems.push_back({"seq_len", "an integer >= 1", std::to_string(options.seq_len), ""});
  if (options.lora_rank < 0)
    problems.push_back({"lora_rank", "an integer >= 0", std::to_string(options.lora_rank), ""});
  check_not_built(options, problems);
  check_experts(spec, options, problems);
  check_splits(spec, options, problems);
  if (!problems.empty()) return problems;
  if (is_transformer(spec.family)) check_transformer(spec, options, problems);
  else check_no_sequence(spec, options, problems);
  return problems;
}

}  // namespace

std::vector<std::string_view> lora_targets_of(const ModelSpec& spec) {
  const auto latent = [](const LayerView& kind) { return kind.variants.kv_rank > 0; };
  std::vector<std::string_view> all{"q", "k", "v", "o"};
  if (any_kind(spec, latent)) all = {"o"};
  const auto dense = [](const LayerView& kind) { return kind.variants.experts == 0; };
  const auto gated = [&](const LayerView& kind) {
    return dense(kind) && is_gated(kind.variants.ffn);
  };
  if (any_kind(spec, gated)) all.emplace_back("gate");
  if (any_kind(spec, dense)) all.insert(all.end(), {"up", "down"});
  return all;
}

core::Result<ModelGraph> build_graph(const ModelSpec& spec, const GraphOptions& options) {
  Problems problems = check_spec(spec);
  if (problems.empty()) problems = check_options(spec, options);
  if (!problems.empty()) return problems;
  if (spec.family == Family::graph) return build_operator_graph(spec, options);
  return is_transformer(spec.family) ? build_transformer(spec, options)
                                     : build_chain(spec, options);
}

}  // namespace models
