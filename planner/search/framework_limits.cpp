#include "planner/search/framework_limits.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/features.hpp"

namespace planner {
namespace {

using Runs = hw_profiles::Framework::Runs;

constexpr std::string_view kWhere = " where ";

// What a limit may be said of besides other keys of the strategy: "tensor where model=other".
struct Fact {
  std::string_view name, value;
};

std::array<Fact, 4> facts_of(const Request& r) {
  const std::int64_t tokens = r.job.seq_len > 0 ? r.job.seq_len : default_seq_len(r.model, r.job);
  const std::optional<Recipe> recipe = resolve_recipe(r.job.recipe, r.job.precision);
  const bool keeps_copy = recipe && recipe->has_master && r.job.lora_rank == 0;
  return {{{"model", models::has_llama_layers(r.model, tokens) ? "llama3" : "other"},
           {"liger", models::has_liger_loss(r.model) ? "yes" : "no"},
           {"master_copy", keeps_copy ? "yes" : "no"},
           {"fp8_params", r.job.in_few_bits("params") ? "yes" : "no"}}};
}

// Whether a limit's condition is a fact, and if so, whether the fact is so.
enum class Condition : std::uint8_t { none, strategy, holds, fails };
Condition condition_of(const Runs& runs, std::span<const Fact> facts) {
  const std::size_t at = runs.key.find(kWhere);
  if (at == std::string::npos) return Condition::none;
  const std::string_view where = std::string_view(runs.key).substr(at + kWhere.size());
  for (const Fact& fact : facts)
    if (where.starts_with(fact.name) && where.substr(fact.name.size()).starts_with('='))
      return where.substr(fact.name.size() + 1) == fact.value ? Condition::holds
                                                              : Condition::fails;
  return Condition::strategy;
}

// Tensor ranks with a key head each.
core::Status limit_to_key_heads(Request& request) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t t = 1; t <= request.model.kv_heads; ++t)
    if (request.model.kv_heads % t == 0) degrees.push_back(t);
  if (degrees.empty()) return core::Done{};
  return request.constraints.limit("tensor", fmt::format("{}", fmt::join(degrees, "|")));
}

}  // namespace

core::Result<Request> within_framework(Request request) {
  const hw_profiles::Framework framework = request.profile.framework;
  const auto facts = facts_of(request);
  Constraints& constraints = request.constraints;
  std::vector<std::string> narrowed;
  bool says_tensor = false;
  // What is said of this model or job replaces what is said of all.
  for (const bool by_facts : {false, true}) {
    for (const Runs& runs : framework.runs) {
      const Condition condition = condition_of(runs, facts);
      const bool is_fact = condition == Condition::holds || condition == Condition::fails;
      if (is_fact != by_facts || condition == Condition::fails) continue;
      const std::string key = by_facts ? runs.key.substr(0, runs.key.find(kWhere)) : runs.key;
      if (by_facts && constraints.is_pinned(key)) continue;
      if (key == "tensor") says_tensor = true;
      if (by_facts && runs.key.ends_with("model=other")) narrowed.push_back(key);
      if (const core::Status done = constraints.limit(key, runs.values); !done.ok())
        return done.problems();
    }
  }
  if (!narrowed.empty()) {
    std::string told = fmt::format(
        "framework {} divides the layers of Llama 3 alone without code of yours, so of {} only "
        "what needs none is searched: pin {} to plan for more",
        framework.id, request.model.name, fmt::join(narrowed, ", "));
    if (std::ranges::find(request.assumptions, told) == request.assumptions.end())
      request.assumptions.push_back(std::move(told));   // a plan within a plan says it once
  }
  if (says_tensor || framework.shares_key_heads.value_or(false)) return request;
  if (const core::Status done = limit_to_key_heads(request); !done.ok()) return done.problems();
  return request;
}

}  // namespace planner
