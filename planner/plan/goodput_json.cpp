#include "planner/plan/goodput.hpp"

namespace planner {
namespace {

using core::Json;

Json failing_kinds_json(const Goodput& g) {
  Json array = Json::array();
  for (std::size_t k = 0; k < g.model.parts.size(); ++k) {
    const engine::FailingParts& p = g.model.parts[k];
    const bool repaired = g.model.spares && p.nodes > 0;
    array.push_back(Json::object({{"kind", p.kind},
                                  {"parts", p.parts},
                                  {"between_failures", p.between.value()},
                                  {"nodes_taken", p.nodes},
                                  {"repair", repaired ? Json(p.repair.value()) : Json()},
                                  {"failures", g.played.of_kind[k]}}));
  }
  return array;
}

Json interval_rules_json(const Goodput& g) {
  Json array = Json::array();
  for (const GoodputRule& r : g.rules)
    array.push_back(Json::object({{"rule", r.name},
                                  {"interval_steps", r.interval},
                                  {"daly", r.daly},
                                  {"first_order", r.first_order},
                                  {"expected", r.expected},
                                  {"played", r.played}}));
  return array;
}

Json sources_json(const FailureOptions& o) {
  Json array = Json::array();
  for (const hw_profiles::Sourced& s : o.sources)
    array.push_back(
        Json::object({{"field", s.field}, {"value", s.text}, {"source", s.source}}));
  return array;
}

Json gpu_between(const Goodput& g) {
  for (const engine::FailingParts& p : g.model.parts)
    if (p.kind == name(hw_profiles::Failing::gpu)) return p.between.value();
  return {};
}

}  // namespace

Json goodput_json(const Goodput& g, const FailureOptions& o) {
  const engine::FailureModel& m = g.model;
  const bool memory = m.saving == engine::Saving::memory;
  return Json::object(
      {{"gpu_between_failures", gpu_between(g)},
       {"job_between_failures", m.between().value()},
       {"rates_of", o.rates_of.empty() ? Json() : Json(o.rates_of)},
       {"sources", sources_json(o)},
       {"kinds", failing_kinds_json(g)},
       {"saves", engine::name(m.saving)},
       {"save", m.save.value()},
       {"behind", m.behind.value()},
       {"stored", memory ? Json(m.stored.value()) : Json()},
       {"checkpoint_bytes", g.bytes.all.value()},
       {"storage", o.storage ? Json(o.storage->value()) : Json()},
       {"detect", o.detect.value()},
       {"restart", o.restart.value()},
       {"spare_nodes", o.spares ? Json(*o.spares) : Json()},
       {"wait", g.wait.value()},
       {"interval_steps", g.interval},
       {"expected", g.expected},
       {"step", g.step.value()},
       {"rules", interval_rules_json(g)},
       {"horizon", o.horizon.value()},
       {"played", g.played.goodput},
       {"steps", g.played.steps},
       {"failures", g.played.failures},
       {"lost_steps", g.played.lost_steps},
       {"memory_lost", memory ? Json(g.played.memory_lost) : Json()},
       {"shares", Json::object({{"kept", g.played.goodput},
                                {"saving", g.played.saving},
                                {"repeated", g.played.repeated},
                                {"restarting", g.played.restarting},
                                {"waiting", g.played.waiting}})},
       {"assumed", Json::array_of(g.assumed)}});
}

}  // namespace planner
