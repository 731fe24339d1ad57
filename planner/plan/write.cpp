#include "core/check.hpp"
#include "hw_profiles/load.hpp"
#include "models/spec_file.hpp"
#include "planner/evaluate/candidate_json.hpp"
#include "planner/plan/plan.hpp"
#include "planner/plan/robust_json.hpp"

namespace planner {
namespace {

using core::Json;

// Text that another module wrote, as a value of this file.
Json embedded(const std::string& text) {
  core::Result<Json> value = core::parse_json(text, "embedded");
  PLANNER_CHECK(value.ok(), "a module wrote text that is no JSON");
  return std::move(value).value();
}

Json model_json(const Plan& plan) {
  const models::ModelSpec& m = plan.model;
  return Json::object({{"name", m.name},
                       {"family", models::name(m.family)},
                       {"parameters", plan.parameters},
                       {"layers", m.layers},
                       {"hidden", m.hidden},
                       {"heads", m.heads},
                       {"kv_heads", m.kv_heads},
                       {"ffn_hidden", m.ffn_hidden},
                       {"vocab", m.vocab},
                       {"seq_len", plan.job.seq_len},
                       {"spec", embedded(models::spec_to_json(m))}});
}

Json cluster_json(const Plan& plan) {
  return Json::object({{"gpu", plan.profile.gpu.id},
                       {"gpus", plan.gpus},
                       {"gpus_per_node", plan.gpus_per_node},
                       {"nodes", plan.nodes},
                       {"usable_bytes", plan.profile.gpu.usable.value()},
                       {"profile", embedded(hw_profiles::to_json_text(plan.profile))}});
}

Json chain_json(const Chain& c) {
  return Json::object({{"seed", static_cast<std::int64_t>(c.seed)},
                       {"proposals", c.proposals},
                       {"accepted", c.accepted},
                       {"start_seconds", c.start.value()},
                       {"found_seconds", c.found.value()},
                       {"exact_seconds", c.exact.value()},
                       {"splits", Json::array_of(c.splits)}});
}

Json search_json(const SearchCounts& s) {
  Json json = Json::object({{"enumerated", s.enumerated},
                            {"infeasible", s.infeasible},
                            {"evaluated", s.evaluated},
                            {"replayed", s.replayed},
                            {"simulated", s.simulated},
                            {"seconds", s.seconds.value()}});
  if (s.chain) json.set("chain", chain_json(*s.chain));
  return json;
}

Json candidates_json(const std::vector<Candidate>& candidates) {
  Json array = Json::array();
  for (const Candidate& c : candidates) array.push_back(to_json(c));
  return array;
}

Json rejected_json(const std::vector<Rejection>& rejections) {
  Json array = Json::array();
  for (const Rejection& r : rejections)
    array.push_back(Json::object({{"strategy", to_json(r.strategy)},
                                  {"limit", r.limit},
                                  {"needed", r.needed},
                                  {"available", r.available},
                                  {"fix", r.fix.empty() ? Json() : Json(r.fix)}}));
  return array;
}

Json counts_json(const std::map<std::string, std::int64_t>& counts) {
  Json object = Json::object();
  for (const auto& [limit, count] : counts) object.set(limit, count);
  return object;
}

Json machines_json(const std::vector<OtherMachine>& machines) {
  Json array = Json::array();
  for (const OtherMachine& m : machines) {
    const std::optional<Candidate>& c = m.candidate;
    array.push_back(Json::object({{"gpu", m.gpu},
                                  {"feasible", c.has_value()},
                                  {"step_seconds", c ? Json(c->time.step.value()) : Json()},
                                  {"strategy", c ? to_json(c->strategy) : Json()},
                                  {"candidate", c ? to_json(*c) : Json()},
                                  {"gpu_hour_usd", m.price ? Json(m.price->value()) : Json()},
                                  {"price_source", m.price_source}}));
  }
  return array;
}

Json frameworks_json(const std::vector<OtherFramework>& frameworks) {
  Json array = Json::array();
  for (const OtherFramework& f : frameworks)
    array.push_back(Json::object({{"framework", f.framework},
                                  {"recipe", f.recipe},
                                  {"feasible", f.candidate.has_value()},
                                  {"candidate", f.candidate ? to_json(*f.candidate) : Json()}}));
  return array;
}

Json released_json(const std::vector<Released>& released) {
  Json array = Json::array();
  for (const Released& r : released)
    array.push_back(Json::object(
        {{"scope", kReleasedScopes[static_cast<std::size_t>(r.scope)]},
         {"keys", Json::array_of(r.keys)},
         {"helps", r.helps},
         {"strategy", r.best ? to_json(*r.best) : Json()},
         {"step_seconds", r.best ? Json(r.step.value()) : Json()},
         {"device", r.best ? Json(r.device.value()) : Json()},
         {"out_of_memory", r.best ? Json(r.out_of_memory) : Json()}}));
  return array;
}

Json earned_json(const std::vector<Earned>& earned) {
  Json array = Json::array();
  for (const Earned& e : earned)
    array.push_back(
        Json::object({{"part", e.part},
                      {"without", e.without ? to_json(*e.without) : Json()},
                      {"step_seconds", e.without ? Json(e.step.value()) : Json()},
                      {"device", e.without ? Json(e.device.value()) : Json()}}));
  return array;
}

Json training_json(const std::optional<cost::Training>& training) {
  if (!training) return Json();
  const cost::Training& t = *training;
  return Json::object({{"tokens", t.tokens},
                       {"seconds", t.seconds.value()},
                       {"gpu_hours", t.gpu_hours},
                       {"cost_usd", t.cost ? Json(t.cost->value()) : Json()},
                       {"energy_joules", t.energy ? Json(t.energy->value()) : Json()}});
}

Json rules_json(const std::vector<RuleOfThumb>& rules) {
  Json array = Json::array();
  for (const RuleOfThumb& r : rules)
    array.push_back(Json::object({{"name", r.name},
                                  {"formula", r.formula},
                                  {"value", r.value},
                                  {"unit", r.unit},
                                  {"source", r.source}}));
  return array;
}

}  // namespace

OtherMachine other_machine(const hw_profiles::Profile& profile,
                           const std::optional<Candidate>& candidate) {
  const hw_profiles::Sourced* stated = profile.lookup("gpu.price");
  return {profile.gpu.id, candidate, profile.gpu.price, stated == nullptr ? "" : stated->source};
}

std::string_view name(Because because) {
  return kBecause[static_cast<std::size_t>(because)];
}

const Candidate* candidate_of(const Plan& plan, std::int64_t n) {
  if (n == 0) return plan.chosen ? &*plan.chosen : nullptr;
  const bool there = n > 0 && n <= static_cast<std::int64_t>(plan.alternatives.size());
  return there ? &plan.alternatives[static_cast<std::size_t>(n - 1)] : nullptr;
}

std::string to_json_text(const Plan& plan) {
  Json root = Json::object({{"schema", "plan/1"},
                            {"assumptions", Json::array_of(plan.assumptions)},
                            {"model", model_json(plan)},
                            {"cluster", cluster_json(plan)},
                            {"job", to_json(plan.job)},
                            {"search", search_json(plan.search)}});
  root.set("max_risk", plan.max_risk);
  root.set("chosen", plan.chosen ? to_json(*plan.chosen) : Json());
  root.set("because", plan.chosen ? Json(name(plan.because)) : Json());
  root.set("earned", earned_json(plan.earned));
  root.set("training", training_json(plan.training));
  root.set("alternatives", candidates_json(plan.alternatives));
  root.set("pareto", candidates_json(plan.pareto));
  root.set("rejected", rejected_json(plan.rejected));
  root.set("rejected_per_limit", counts_json(plan.rejected_per_limit));
  root.set("other_machines", machines_json(plan.other_machines));
  root.set("other_frameworks", frameworks_json(plan.other_frameworks));
  root.set("released", released_json(plan.released));
  if (plan.robust) root.set("robust", robust_json(*plan.robust));
  root.set("rules_of_thumb", rules_json(plan.rules_of_thumb));
  return core::dump(root) + '\n';
}

}  // namespace planner
