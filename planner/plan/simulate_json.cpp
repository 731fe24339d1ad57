// The file simulate/1.
#include <fmt/format.h>

#include "planner/evaluate/candidate_json.hpp"
#include "planner/plan/checkpoint_traffic.hpp"
#include "planner/plan/robust_json.hpp"
#include "planner/plan/simulate.hpp"

namespace planner {
namespace {

using core::Json;

Json streams_json(const std::vector<StreamUse>& streams) {
  Json array = Json::array();
  for (const StreamUse& s : streams)
    array.push_back(Json::object({{"rank", s.rank},
                                  {"stream", program::name(s.stream)},
                                  {"busy", s.busy.value()},
                                  {"idle", s.idle.value()}}));
  return array;
}

Json path_json(const std::vector<PathPart>& path) {
  Json array = Json::array();
  for (const PathPart& part : path)
    array.push_back(Json::object({{"kind", part.kind}, {"seconds", part.seconds.value()}}));
  return array;
}

// What was changed of the plan's machine; empty objects and zeros: nothing.
Json conditions_json(const SimulateOptions& o) {
  Json stragglers = Json::array();
  for (const engine::Straggler& s : o.stragglers)
    stragglers.push_back(Json::object({{"rank", s.rank}, {"slowdown", s.slowdown}}));
  Json json = Json::object({{"stragglers", std::move(stragglers)},
                            {"jitter", o.jitter},
                            {"seed", static_cast<std::int64_t>(o.seed)},
                            {"collectives", o.flows ? "flows" : "timed"}});
  if (!o.flows) return json;
  json.set("links", o.flows->sharing == engine::Sharing::shared ? "shared" : "exclusive");
  Json weak = Json::array();
  for (const engine::WeakLink& w : o.flows->weak)
    weak.push_back(Json::object({{"rank", w.rank}, {"share", w.share}}));
  json.set("weak_links", std::move(weak));
  if (o.fabric) {
    json.set("fabric", o.fabric->id);
    json.set("routing", hw_profiles::name(o.fabric->routing));
    Json assumed = Json::array();
    for (const hw_profiles::Sourced& a : assumptions(*o.fabric))
      assumed.push_back(fmt::format("{} {}: {}", a.field, a.text, a.source));
    json.set("fabric_assumptions", std::move(assumed));
  }
  return json;
}

Json trace_json(const program::Trace& trace, program::TraceFormat format) {
  Json micro_batches = Json::array();
  for (const core::IntRange& range : trace.scope.micro_batches)
    micro_batches.push_back(Json::array_of(std::vector<std::int64_t>{range.low, range.high}));
  return Json::object(
      {{"format", format == program::TraceFormat::perfetto ? "perfetto" : "json"},
       {"bytes", static_cast<std::int64_t>(trace.bytes.size())},
       {"ranks", Json::array_of(trace.scope.ranks)},
       {"micro_batches", std::move(micro_batches)},
       {"whole", trace.scope.whole()}});
}

Json link_loads_json(const std::vector<LinkLoad>& links) {
  Json array = Json::array();
  for (const LinkLoad& l : links)
    array.push_back(Json::object({{"link", l.name}, {"bytes", l.bytes}, {"share", l.share}}));
  return array;
}

Json loads_json(const LinkLoads& loads) {
  Json tiers = Json::array(), layers = Json::array();
  for (const TierLoad& t : loads.tiers)
    tiers.push_back(Json::object({{"tier", t.tier},
                                  {"links", t.links},
                                  {"bandwidth", t.rate.value()},
                                  {"mean", loads.worst_of_alike ? Json() : Json(t.mean)},
                                  {"most", t.most},
                                  {"busiest", t.busiest},
                                  {"worst", link_loads_json(t.worst)},
                                  {"links_per_cell", t.links_per_cell},
                                  {"cells", Json::array_of(t.cells)}}));
  for (const auto& [layer, count] : loads.layers)
    layers.push_back(Json::object({{"layer", layer}, {"count", count}}));
  return Json::object({{"layers", std::move(layers)},
                       {"tiers", std::move(tiers)},
                       {"links", link_loads_json(loads.links)},
                       {"worst_of_alike", loads.worst_of_alike}});
}

// The terms of `slow` less those of `healthy`.
Json growth_json(const Time& slow, const Time& healthy) {
  const auto more = [](core::Seconds a, core::Seconds b) { return a.value() - b.value(); };
  return Json::object(
      {{"compute", more(slow.compute, healthy.compute)},
       {"exposed_communication", more(slow.exposed_communication, healthy.exposed_communication)},
       {"bubble", more(slow.bubble, healthy.bubble)},
       {"optimizer", more(slow.optimizer, healthy.optimizer)}});
}

Json scaling_json(const std::vector<ScalePoint>& points) {
  Json array = Json::array();
  for (const ScalePoint& p : points)
    array.push_back(Json::object({{"copies", p.copies},
                                  {"gpus", p.gpus},
                                  {"time", to_json(p.time)},
                                  {"samples_per_second", p.samples_per_second},
                                  {"speed_up", p.speed_up},
                                  {"efficiency", p.efficiency}}));
  return array;
}

Json variation_json(const Variation& v, const SimulateOptions& o) {
  return Json::object({{"random", random_json(o.random)},
                       {"steps", static_cast<std::int64_t>(v.steps.size())},
                       {"slowed_steps", v.slowed},
                       {"slow_ranks", v.slow_ranks},
                       {"mean", v.mean.value()},
                       {"p50", quantile(v.steps, 0.5).value()},
                       {"p95", quantile(v.steps, 0.95).value()},
                       {"p99", quantile(v.steps, 0.99).value()},
                       {"least", v.least.value()},
                       {"most", v.most.value()}});
}

}  // namespace

std::string to_json_text(const Simulation& s) {
  Json root = Json::object({{"schema", "simulate/1"},
                            {"candidate", s.candidate},
                            {"strategy", to_json(s.strategy)},
                            {"evaluator", s.evaluator},
                            {"ranks", s.ranks},
                            {"ranks_played", s.ranks_played},
                            {"operations", s.operations},
                            {"conditions", conditions_json(s.options)},
                            {"planned_step", s.planned_step.value()},
                            {"critical_rank", s.critical_rank},
                            {"time", to_json(s.time)},
                            {"first_step", s.first_step.value()},
                            {"memory", to_json(s.memory)}});
  if (s.healthy) {
    root.set("healthy", to_json(*s.healthy));
    root.set("slowdown", s.time.step / s.healthy->step - 1);
    root.set("growth", growth_json(s.time, *s.healthy));
  }
  root.set("peak", Json::object({{"rank", s.peak.rank},
                                 {"live", s.peak.live.value()},
                                 {"seconds", s.peak.time.value()},
                                 {"block", s.peak.block},
                                 {"layer", s.peak.layer},
                                 {"micro_batch", s.peak.micro_batch}}));
  root.set("communication", to_json(s.communication));
  root.set("streams", streams_json(s.streams));
  root.set("critical_path", path_json(s.critical_path));
  if (s.options.flows) {
    Json sent = Json::array();
    for (const double bytes : s.wire_sent) sent.push_back(static_cast<std::int64_t>(bytes));
    root.set("wire_bytes_by_rank", std::move(sent));
    root.set("link_loads", loads_json(s.loads));
    if (s.checkpoint) root.set("checkpoint_traffic", checkpoint_json(*s.checkpoint));
  }
  if (s.options.trace) root.set("trace", trace_json(s.trace, s.options.trace->choice.format));
  if (!s.scaling.empty()) root.set("scaling", scaling_json(s.scaling));
  if (s.variation) root.set("variation", variation_json(*s.variation, s.options));
  if (s.goodput) root.set("goodput", goodput_json(*s.goodput, *s.options.failures));
  return core::dump(root) + '\n';
}

}  // namespace planner
