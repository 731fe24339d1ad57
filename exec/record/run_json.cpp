#include "core/check.hpp"
#include "core/json.hpp"
#include "exec/record/run_record.hpp"
#include "hw_profiles/load.hpp"
#include "models/spec_file.hpp"
#include "planner/evaluate/candidate_json.hpp"

namespace exec {
namespace {

using core::Json;

Json number(const std::optional<core::Bytes>& b) { return b ? Json(b->value()) : Json(); }
Json number(const std::optional<core::Seconds>& s) { return s ? Json(s->value()) : Json(); }

// Text that another module wrote, as a value of this file.
Json embedded(const std::string& text) {
  core::Result<Json> value = core::parse_json(text, "embedded");
  PLANNER_CHECK(value.ok(), "a module wrote text that is no JSON");
  return std::move(value).value();
}

Json model_json(const RunRecord& r) {
  return Json::object({{"name", r.model.name},
                       {"family", models::name(r.model.family)},
                       {"parameters", r.parameters},
                       {"spec", embedded(models::spec_to_json(r.model))}});
}

Json scaled_json(const ScaledFrom& s) {
  Json figures = Json::array();
  for (const planner::ScaledFigure& f : s.figures)
    figures.push_back(Json::object({{"name", f.name}, {"planned", f.planned}, {"run", f.run}}));
  return Json::object({{"spec", embedded(models::spec_to_json(s.model))},
                       {"job", planner::to_json(s.job)},
                       {"strategy", planner::to_json(s.strategy)},
                       {"figures", std::move(figures)}});
}

Json cluster_json(const RunRecord& r) {
  return Json::object({{"gpu", r.profile.gpu.id},
                       {"gpus", r.gpus},
                       {"gpus_per_node", r.gpus_per_node},
                       {"nodes", r.nodes},
                       {"usable_bytes", r.profile.gpu.usable.value()},
                       {"profile", embedded(hw_profiles::to_json_text(r.profile))}});
}

void set_terms(Json& object,
               const std::array<std::optional<core::Bytes>, program::kTerms>& terms) {
  for (std::size_t i = 0; i < terms.size(); ++i)
    object.set(program::name(static_cast<program::Term>(i)), number(terms[i]));
}

Json memory_json(const MeasuredMemory& m) {
  Json object = Json::object({{"rank", m.rank}});
  set_terms(object, m.terms);
  object.set("live", number(m.live));
  object.set("reserved", number(m.reserved));
  object.set("workspace", number(m.workspace));
  object.set("context", number(m.context));
  object.set("communicators", number(m.communicators));
  object.set("message_blocks", number(m.message_blocks));
  object.set("device", number(m.device));
  Json peaks = Json::object();
  set_terms(peaks, m.peaks);
  object.set("peaks", std::move(peaks));
  return object;
}

Json communication_json(const std::vector<MeasuredCommunication>& entries) {
  Json array = Json::array();
  for (const MeasuredCommunication& e : entries)
    array.push_back(Json::object({{"what", e.what},
                                  {"collective", e.collective},
                                  {"algorithm", e.algorithm},
                                  {"group_size", e.group_size},
                                  {"count", e.count},
                                  {"payload_bytes", number(e.payload)},
                                  {"wire_bytes_per_rank", number(e.wire_per_rank)},
                                  {"seconds", number(e.seconds)},
                                  {"library", planner::to_json(e.library)}}));
  return array;
}

Json sent_json(const std::vector<MeasuredMessages>& sent) {
  Json array = Json::array();
  for (const MeasuredMessages& m : sent)
    array.push_back(Json::object({{"from", m.from},
                                  {"to", m.to},
                                  {"messages", m.messages},
                                  {"wire_bytes", m.wire.value()}}));
  return array;
}

Json time_json(const MeasuredTime& t) {
  return Json::object({{"step_median", number(t.step_median)},
                       {"step_p10", number(t.step_p10)},
                       {"step_p90", number(t.step_p90)},
                       {"compute", number(t.compute)},
                       {"exposed_communication", number(t.exposed_communication)},
                       {"bubble", number(t.bubble)},
                       {"optimizer", number(t.optimizer)},
                       {"communication", number(t.communication)}});
}

Json device_times_json(const MeasuredDeviceTimes& t) {
  Json actions = Json::array(), kernels = Json::array();
  for (const MeasuredAction& a : t.actions)
    actions.push_back(Json::object({{"name", a.name},
                                    {"actions", a.actions},
                                    {"kernels", a.kernels},
                                    {"event_seconds", a.events.value()},
                                    {"kernel_seconds", a.sum.value()},
                                    {"covered_seconds", a.covered.value()}}));
  for (const MeasuredKernel& k : t.kernels)
    kernels.push_back(Json::object(
        {{"name", k.name}, {"calls", k.calls}, {"total_seconds", k.total.value()}}));
  Json object = Json::object({{"event_seconds", t.events.value()},
                              {"busy_seconds", t.busy.value()},
                              {"gap_seconds", t.gaps.value()}});
  object.set("actions", std::move(actions));
  object.set("kernels", std::move(kernels));
  return object;
}

Json training_json(const Training& t) {
  return Json::object({{"lr", t.hyper.learning_rate},
                       {"warmup_steps", t.warmup_steps},
                       {"decay", name(t.decay)},
                       {"decay_steps", t.decay_steps},
                       {"lr_end", t.learning_rate_end},
                       {"beta1", t.hyper.beta1},
                       {"beta2", t.hyper.beta2},
                       {"eps", t.hyper.epsilon},
                       {"weight_decay", t.hyper.weight_decay}});
}

// Beside each loss.
Json rates_json(const RunRecord& r) {
  Json rates = Json::array();
  for (std::size_t s = 0; s < r.loss.size(); ++s)
    rates.push_back(r.training->rate_at(static_cast<std::int64_t>(s)));
  return rates;
}

Json environment_json(const std::map<std::string, std::string>& environment) {
  Json object = Json::object();
  for (const auto& [key, value] : environment) object.set(key, value);
  return object;
}

}  // namespace

std::string to_json_text(const RunRecord& r) {
  Json root = Json::object({{"schema", "run/1"},
                            {"model", model_json(r)},
                            {"cluster", cluster_json(r)},
                            {"job", planner::to_json(r.job)},
                            {"candidate", planner::to_json(r.candidate)},
                            {"backend", r.backend},
                            {"communicator", r.communicator},
                            {"device", r.device},
                            {"emulated_links", r.emulated_links},
                            {"ranks", r.ranks},
                            {"steps", r.steps},
                            {"loss", Json::array_of(r.loss)}});
  if (r.training) {
    root.set("learning_rate", rates_json(r));
    root.set("training", training_json(*r.training));
  }
  if (r.scaled_from) root.set("scaled_from", scaled_json(*r.scaled_from));
  root.set("memory", memory_json(r.memory));
  root.set("communication", communication_json(r.communication));
  if (!r.sent.empty()) root.set("sent", sent_json(r.sent));
  root.set("time", time_json(r.time));
  if (r.loss_scale)
    root.set("loss_scale", Json::object({{"last", r.loss_scale->last},
                                         {"skipped_steps", r.loss_scale->skipped_steps}}));
  if (r.staleness)
    root.set("staleness", Json::object({{"pushes", r.staleness->pushes},
                                        {"mean", r.staleness->mean},
                                        {"max", r.staleness->max}}));
  if (r.device_times) root.set("device_times", device_times_json(*r.device_times));
  root.set("environment", environment_json(r.environment));
  return core::dump(root) + '\n';
}

}  // namespace exec
