#include <array>

#include <fmt/format.h>

#include "hw_profiles/load.hpp"
#include "models/spec_file.hpp"
#include "planner/evaluate/candidate_json.hpp"
#include "planner/plan/plan.hpp"
#include "planner/plan/robust_json.hpp"

namespace planner {
namespace {

using core::Json;
using core::JsonReader;

constexpr std::int64_t kMaxGpus = std::int64_t{1} << 24;

// Reads what another module's text describes; its problems name their place inside that object.
void read_spec(JsonReader& model, std::string_view source, Plan& plan, core::Problems& problems) {
  Json spec;
  if (!model.required("spec", spec)) return;
  auto parsed = models::parse_spec(core::dump(spec), fmt::format("{} /model/spec", source));
  if (parsed.ok())
    plan.model = std::move(parsed).value();
  else
    core::append(problems, parsed);
}

void read_profile(JsonReader& cluster, std::string_view source, Plan& plan,
                  core::Problems& problems) {
  Json profile;
  if (!cluster.required("profile", profile)) return;
  auto parsed = hw_profiles::profile_from_json_text(core::dump(profile),
                                                    fmt::format("{} /cluster/profile", source));
  if (parsed.ok())
    plan.profile = std::move(parsed).value();
  else
    core::append(problems, parsed);
}

void read_cluster(JsonReader cluster, std::string_view source, Plan& plan,
                  core::Problems& problems) {
  cluster.required("gpus", plan.gpus, core::IntRange{1, kMaxGpus});
  cluster.required("gpus_per_node", plan.gpus_per_node, core::IntRange{1, kMaxGpus});
  cluster.required("nodes", plan.nodes, core::IntRange{1, kMaxGpus});
  read_profile(cluster, source, plan, problems);
}

Chain read_chain(JsonReader chain) {
  Chain c;
  std::int64_t seed = 1;
  chain.required("seed", seed, kFileCount);
  c.seed = static_cast<std::uint64_t>(seed);
  chain.required("proposals", c.proposals, kFileCount);
  chain.required("accepted", c.accepted, kFileCount);
  chain.required("start_seconds", c.start, kFileSeconds);
  chain.required("found_seconds", c.found, kFileSeconds);
  chain.required("exact_seconds", c.exact, kFileSeconds);
  chain.required("splits", c.splits);
  return c;
}

SearchCounts read_search(JsonReader search) {
  SearchCounts s;
  search.required("enumerated", s.enumerated, kFileCount);
  search.required("infeasible", s.infeasible, kFileCount);
  search.required("evaluated", s.evaluated, kFileCount);
  search.required("replayed", s.replayed, kFileCount);
  search.required("simulated", s.simulated, kFileCount);
  search.required("seconds", s.seconds, kFileSeconds);
  if (auto chain = search.optional_object("chain")) s.chain = read_chain(*chain);
  return s;
}

// The ranks that a strategy's degrees make must be the cluster's: what runs a plan starts them.
void check_ranks(JsonReader& candidate, const Strategy& s, std::int64_t gpus) {
  __extension__ using Wide = __int128;
  Wide ranks = 1;
  for (std::int64_t degree : {s.data, s.tensor, s.pipeline, s.context}) {
    ranks *= degree;
    if (ranks > kMaxGpus) break;
  }
  ranks += s.separate_servers();
  if (ranks != gpus)
    candidate.problem("strategy", fmt::format("degrees that make {} ranks", gpus), to_text(s));
}

Candidate checked_candidate(JsonReader reader, std::int64_t gpus) {
  Candidate candidate = read_candidate(reader);
  check_ranks(reader, candidate.strategy, gpus);
  return candidate;
}

void read_rejected(JsonReader& root, Plan& plan) {
  for (JsonReader& entry : root.objects("rejected")) {
    Rejection r;
    r.strategy = read_strategy(entry.object("strategy"));
    entry.required("limit", r.limit);
    entry.required("needed", r.needed, kFileBytes);
    entry.required("available", r.available, kFileBytes);
    entry.optional("fix", r.fix);
    plan.rejected.push_back(std::move(r));
  }
  if (auto counts = root.optional_object("rejected_per_limit"))
    for (std::string_view limit : counts->keys())
      counts->required(limit, plan.rejected_per_limit[std::string(limit)], kFileCount);
}

void read_earned(JsonReader& root, Plan& plan) {
  for (JsonReader& entry : root.optional_objects("earned")) {
    Earned e;
    entry.required("part", e.part);
    if (auto without = entry.optional_object("without")) {
      e.without = read_strategy(*without);
      entry.required("step_seconds", e.step, kFileSeconds);
      std::int64_t device = 0;
      entry.required("device", device, kFileBytes);
      e.device = core::Bytes(device);
    }
    plan.earned.push_back(std::move(e));
  }
}

void read_machines(JsonReader& root, Plan& plan) {
  for (JsonReader& entry : root.optional_objects("other_machines")) {
    OtherMachine m;
    entry.required("gpu", m.gpu);
    // feasible, step_seconds and strategy repeat what the candidate says.
    if (auto candidate = entry.optional_object("candidate"))
      m.candidate = read_candidate(*candidate);
    double price = 0;
    if (entry.optional("gpu_hour_usd", price)) m.price = hw_profiles::DollarsPerHour(price);
    entry.optional("price_source", m.price_source);
    plan.other_machines.push_back(std::move(m));
  }
}

void read_frameworks(JsonReader& root, Plan& plan) {
  for (JsonReader& entry : root.optional_objects("other_frameworks")) {
    OtherFramework f;
    entry.required("framework", f.framework);
    entry.required("recipe", f.recipe);
    if (auto candidate = entry.optional_object("candidate"))
      f.candidate = checked_candidate(*candidate, plan.gpus);
    plan.other_frameworks.push_back(std::move(f));
  }
}

void read_released(JsonReader& root, Plan& plan) {
  for (JsonReader& entry : root.optional_objects("released")) {
    Released r;
    std::string scope;
    if (entry.one_of("scope", kReleasedScopes, scope))
      r.scope = static_cast<Released::Scope>(std::ranges::find(kReleasedScopes, scope) -
                                             kReleasedScopes.begin());
    entry.required("keys", r.keys);
    entry.required("helps", r.helps);
    if (auto best = entry.optional_object("strategy")) {
      r.best = read_strategy(*best);
      entry.required("step_seconds", r.step, kFileSeconds);
      std::int64_t device = 0;
      entry.required("device", device, kFileBytes);
      r.device = core::Bytes(device);
      entry.required("out_of_memory", r.out_of_memory, core::NumberRange{0, 1, false});
    }
    plan.released.push_back(std::move(r));
  }
}

void read_training(JsonReader& root, Plan& plan) {
  auto entry = root.optional_object("training");
  if (!entry) return;
  constexpr core::NumberRange kAmount{0, 1e30, false};
  cost::Training t;
  entry->required("tokens", t.tokens, kFileCount);
  entry->required("seconds", t.seconds, kAmount);
  entry->required("gpu_hours", t.gpu_hours, kAmount);
  entry->optional("cost_usd", t.cost, kAmount);
  entry->optional("energy_joules", t.energy, kAmount);
  plan.training = t;
}

void read_rules(JsonReader& root, Plan& plan) {
  for (JsonReader& entry : root.optional_objects("rules_of_thumb")) {
    RuleOfThumb r;
    entry.required("name", r.name);
    entry.required("formula", r.formula);
    entry.required("value", r.value, core::NumberRange{-1e30, 1e30});
    entry.required("unit", r.unit);
    entry.required("source", r.source);
    plan.rules_of_thumb.push_back(std::move(r));
  }
}

}  // namespace

core::Result<Plan> parse_plan(std::string_view text, std::string_view source_name) {
  const core::Result<Json> json = core::parse_json(text, source_name);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  JsonReader root(*json, std::string(source_name), "", problems);
  Plan plan;
  std::string schema;
  constexpr std::array<std::string_view, 1> kSchemas{"plan/1"};
  // Another kind of file has nothing else to say here.
  if (!root.one_of("schema", kSchemas, schema)) return problems;
  root.required("assumptions", plan.assumptions);
  JsonReader model = root.object("model");
  model.required("parameters", plan.parameters, kFileCount);
  read_spec(model, source_name, plan, problems);
  read_cluster(root.object("cluster"), source_name, plan, problems);
  plan.job = read_job(root.object("job"));
  plan.search = read_search(root.object("search"));
  if (auto chosen = root.optional_object("chosen"))
    plan.chosen = checked_candidate(*chosen, plan.gpus);
  root.optional("max_risk", plan.max_risk, core::NumberRange{0, 1, false});
  if (std::string because; root.has("because") && plan.chosen &&
                           root.one_of("because", kBecause, because))
    plan.because = static_cast<Because>(std::ranges::find(kBecause, because) - kBecause.begin());
  read_earned(root, plan);
  read_training(root, plan);
  for (JsonReader& c : root.objects("alternatives"))
    plan.alternatives.push_back(checked_candidate(c, plan.gpus));
  for (JsonReader& c : root.objects("pareto"))
    plan.pareto.push_back(checked_candidate(c, plan.gpus));
  read_rejected(root, plan);
  read_machines(root, plan);
  read_frameworks(root, plan);
  read_released(root, plan);
  if (auto robust = root.optional_object("robust"))
    plan.robust = read_robust(*robust, plan.alternatives.size() + (plan.chosen ? 1 : 0));
  read_rules(root, plan);
  if (!problems.empty()) return problems;
  return plan;
}

}  // namespace planner
