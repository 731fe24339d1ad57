#include "planner/evaluate/candidate_json.hpp"

#include "planner/strategy/keys.hpp"

namespace planner {
namespace {

using core::Json;

Json seconds(core::Seconds s) { return Json(s.value()); }
Json bytes(core::Bytes b) { return Json(b.value()); }

Json term_object(const std::array<core::Bytes, program::kTerms>& terms) {
  Json object = Json::object();
  for (int i = 0; i < program::kTerms; ++i)
    object.set(program::name(static_cast<program::Term>(i)),
               bytes(terms[static_cast<std::size_t>(i)]));
  return object;
}

void set_terms(Json& object, const MemoryTerms& m) {
  const Json terms = term_object(m.terms);
  for (const Json::Member& member : terms.members()) object.set(member.key, member.value);
  object.set("live", bytes(m.live));
  object.set("reserved", bytes(m.reserved));
  object.set("workspace", bytes(m.workspace));
  object.set("context", bytes(m.context));
  object.set("communicators", bytes(m.communicators));
  object.set("device", bytes(m.device));
  object.set("host", bytes(m.host));
  object.set("waiting", bytes(m.waiting));
}

}  // namespace

Json to_json(const Strategy& strategy) {
  Json object = Json::object();
  for (const StrategyKey& key : strategy_keys()) {
    if (key.kind == KeyKind::numbers)
      object.set(key.name, Json::array_of(strategy.*key.numbers));
    else if (key.is_list())
      object.set(key.name, Json::array_of(list_value(key, strategy)));
    else if (key.kind == KeyKind::boolean)
      object.set(key.name, key.get(strategy) != 0);
    else if (key.kind == KeyKind::choice)
      object.set(key.name, value_text(key, strategy));
    else
      object.set(key.name, key.get(strategy));
  }
  return object;
}

Json to_json(const Memory& memory) {
  Json object = Json::object();
  object.set("rank", memory.rank);
  set_terms(object, memory.worst);
  object.set("usable", bytes(memory.usable));
  object.set("estimated", memory.estimated);
  object.set("peaks", term_object(memory.worst.peaks));
  Json stages = Json::array();
  for (const StageMemory& stage : memory.stages) {
    Json entry = Json::object();
    entry.set("stage", stage.stage);
    set_terms(entry, stage.memory);
    entry.set("peaks", term_object(stage.memory.peaks));
    stages.push_back(std::move(entry));
  }
  object.set("stages", std::move(stages));
  return object;
}

Json to_json(const Time& time) {
  return Json::object({{"step", seconds(time.step)},
                       {"compute", seconds(time.compute)},
                       {"exposed_communication", seconds(time.exposed_communication)},
                       {"bubble", seconds(time.bubble)},
                       {"optimizer", seconds(time.optimizer)},
                       {"communication", seconds(time.communication)},
                       {"launch_bound", time.launch_bound}});
}

Json to_json(const std::vector<CommunicationEntry>& entries) {
  Json array = Json::array();
  for (const CommunicationEntry& e : entries)
    array.push_back(Json::object({{"what", e.what},
                                  {"collective", e.collective},
                                  {"algorithm", e.algorithm},
                                  {"group_size", e.group_size},
                                  {"count", e.count},
                                  {"payload_bytes", bytes(e.payload)},
                                  {"wire_bytes_per_rank", bytes(e.wire_per_rank)},
                                  {"seconds", seconds(e.seconds)},
                                  {"library", to_json(e.library)}}));
  return array;
}

Json to_json(const std::vector<program::LibraryCalls>& calls) {
  Json array = Json::array();
  for (const program::LibraryCalls& c : calls)
    array.push_back(Json::object({{"algorithm", c.algorithm},
                                  {"protocol", c.protocol},
                                  {"channels", c.channels},
                                  {"count", c.count},
                                  {"payload_bytes", bytes(c.payload)},
                                  {"smallest_bytes", bytes(c.smallest)},
                                  {"largest_bytes", bytes(c.largest)}}));
  return array;
}

Json to_json(const Throughput& t) {
  return Json::object({{"samples_per_second", t.samples_per_second},
                       {"tokens_per_second", t.tokens_per_second},
                       {"tokens_per_second_per_gpu", t.tokens_per_second_per_gpu},
                       {"model_tflops_per_gpu", t.model_tflops_per_gpu},
                       {"mfu", t.mfu}});
}

Json to_json(const Uncertainty& u) {
  return Json::object({{"step_low", seconds(u.step_low)},
                       {"step_high", seconds(u.step_high)},
                       {"device_low", bytes(u.device_low)},
                       {"device_high", bytes(u.device_high)},
                       {"out_of_memory", u.out_of_memory},
                       {"calibration_runs", u.calibration_runs},
                       {"similar_runs", u.similar_runs}});
}

Json to_json(const Candidate& c) {
  return Json::object({{"strategy", to_json(c.strategy)},
                       {"memory", to_json(c.memory)},
                       {"time", to_json(c.time)},
                       {"communication", to_json(c.communication)},
                       {"throughput", to_json(c.throughput)},
                       {"uncertainty", to_json(c.uncertainty)},
                       {"evaluator", c.evaluator}});
}

Json to_json(const Job& job) {
  Json object = Json::object({{"mode", name(job.mode)},
                              {"seq_len", job.seq_len},
                              {"global_batch", job.global_batch},
                              {"recipe", job.recipe},
                              {"precision", precision_name(job.precision)},
                              {"optimizer", optimizer(job.optimizer).name},
                              {"lora_rank", job.lora_rank},
                              {"lora_targets", Json::array_of(job.lora_targets)},
                              {"quantization", job.quantization},
                              {"attention", job.attention},
                              {"framework", job.framework},
                              {"fused_norm", job.fused_norm},
                              {"compile", job.compile},
                              {"fp8_scaling", job.fp8_scaling}});
  if (job.mtp_layers > 0) object.set("mtp_layers", job.mtp_layers);
  if (job.expert_imbalance != 1) object.set("expert_imbalance", job.expert_imbalance);
  if (job.clip > 0) object.set("clip", job.clip);
  if (job.precision == core::DType::f16) object.set("loss_scale", loss_scale_text(job.loss_scale));
  if (!job.fp8_tensors.empty()) object.set("fp8_tensors", Json::array_of(job.fp8_tensors));
  object.set("reduce_dtype", job.reduce_dtype ? Json(core::name(*job.reduce_dtype)) : Json());
  return object;
}

}  // namespace planner
