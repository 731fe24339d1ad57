#include <array>
#include <limits>

#include <fmt/format.h>

#include "core/json_reader.hpp"
#include "exec/record/run_record.hpp"
#include "hw_profiles/load.hpp"
#include "models/spec_file.hpp"
#include "planner/evaluate/candidate_json.hpp"

namespace exec {
namespace {

using core::JsonReader;
using planner::kFileBytes;
using planner::kFileSeconds;

constexpr core::IntRange kRanks{1, std::int64_t{1} << 24};

// Takes over what another module's reader made of a part of the file, or its problems.
template <class T>
void take(core::Result<T> parsed, T& out, core::Problems& problems) {
  if (parsed.ok())
    out = std::move(parsed).value();
  else
    core::append(problems, parsed);
}

void read_model(JsonReader model, std::string_view source, RunRecord& record,
                core::Problems& problems) {
  model.required("parameters", record.parameters, planner::kFileCount);
  core::Json spec;
  if (model.required("spec", spec))
    take(models::parse_spec(core::dump(spec), fmt::format("{} /model/spec", source)), record.model,
         problems);
}

ScaledFrom read_scaled(JsonReader reader, std::string_view source, core::Problems& problems) {
  ScaledFrom s;
  core::Json spec;
  if (reader.required("spec", spec))
    take(models::parse_spec(core::dump(spec), fmt::format("{} /scaled_from/spec", source)), s.model,
         problems);
  s.job = planner::read_job(reader.object("job"));
  s.strategy = planner::read_strategy(reader.object("strategy"));
  for (JsonReader& entry : reader.objects("figures")) {
    planner::ScaledFigure& f = s.figures.emplace_back();
    entry.required("name", f.name);
    entry.required("planned", f.planned, planner::kFileCount);
    entry.required("run", f.run, planner::kFileCount);
  }
  return s;
}

void read_cluster(JsonReader cluster, std::string_view source, RunRecord& record,
                  core::Problems& problems) {
  cluster.required("gpus", record.gpus, kRanks);
  cluster.required("gpus_per_node", record.gpus_per_node, kRanks);
  cluster.required("nodes", record.nodes, kRanks);
  core::Json profile;
  if (cluster.required("profile", profile))
    take(hw_profiles::profile_from_json_text(core::dump(profile),
                                             fmt::format("{} /cluster/profile", source)),
         record.profile, problems);
}

void read_terms(JsonReader& reader,
                std::array<std::optional<core::Bytes>, program::kTerms>& terms) {
  for (std::size_t i = 0; i < terms.size(); ++i)
    reader.optional(program::name(static_cast<program::Term>(i)), terms[i], kFileBytes);
}

MeasuredMemory read_memory(JsonReader reader) {
  MeasuredMemory m;
  reader.required("rank", m.rank, core::IntRange{0, 1 << 24});
  read_terms(reader, m.terms);
  reader.optional("live", m.live, kFileBytes);
  reader.optional("reserved", m.reserved, kFileBytes);
  reader.optional("workspace", m.workspace, kFileBytes);
  reader.optional("context", m.context, kFileBytes);
  reader.optional("communicators", m.communicators, kFileBytes);
  reader.optional("message_blocks", m.message_blocks, kFileBytes);
  reader.optional("device", m.device, kFileBytes);
  if (auto peaks = reader.optional_object("peaks")) read_terms(*peaks, m.peaks);
  return m;
}

MeasuredCommunication read_communication(JsonReader reader) {
  MeasuredCommunication e;
  reader.required("what", e.what);
  reader.required("collective", e.collective);
  reader.required("algorithm", e.algorithm);
  reader.required("group_size", e.group_size, core::IntRange{1, 1 << 24});
  reader.optional("count", e.count, planner::kFileCount);
  reader.optional("payload_bytes", e.payload, kFileBytes);
  reader.optional("wire_bytes_per_rank", e.wire_per_rank, kFileBytes);
  reader.optional("seconds", e.seconds, kFileSeconds);
  e.library = planner::read_library_calls(reader);
  return e;
}

MeasuredMessages read_sent(JsonReader reader) {
  MeasuredMessages m;
  reader.required("from", m.from, core::IntRange{0, 1 << 24});
  reader.required("to", m.to, core::IntRange{0, 1 << 24});
  reader.required("messages", m.messages, planner::kFileCount);
  reader.required("wire_bytes", m.wire, kFileBytes);
  return m;
}

MeasuredTime read_time(JsonReader reader) {
  MeasuredTime t;
  reader.optional("step_median", t.step_median, kFileSeconds);
  reader.optional("step_p10", t.step_p10, kFileSeconds);
  reader.optional("step_p90", t.step_p90, kFileSeconds);
  reader.optional("compute", t.compute, kFileSeconds);
  reader.optional("exposed_communication", t.exposed_communication, kFileSeconds);
  reader.optional("bubble", t.bubble, kFileSeconds);
  reader.optional("optimizer", t.optimizer, kFileSeconds);
  reader.optional("communication", t.communication, kFileSeconds);
  return t;
}

MeasuredStaleness read_staleness(JsonReader reader) {
  MeasuredStaleness s;
  reader.required("pushes", s.pushes, planner::kFileCount);
  reader.required("mean", s.mean, core::NumberRange{0, 1e18, false});
  reader.required("max", s.max, planner::kFileCount);
  return s;
}

MeasuredLossScale read_loss_scale(JsonReader reader) {
  MeasuredLossScale s;
  reader.required("last", s.last, core::NumberRange{1, planner::kMostLossScale});
  reader.required("skipped_steps", s.skipped_steps, planner::kFileCount);
  return s;
}

MeasuredDeviceTimes read_device_times(JsonReader reader) {
  MeasuredDeviceTimes t;
  reader.required("event_seconds", t.events, kFileSeconds);
  reader.required("busy_seconds", t.busy, kFileSeconds);
  reader.required("gap_seconds", t.gaps, kFileSeconds);
  for (JsonReader& entry : reader.objects("actions")) {
    MeasuredAction& a = t.actions.emplace_back();
    entry.required("name", a.name);
    entry.required("actions", a.actions, planner::kFileCount);
    entry.required("kernels", a.kernels, planner::kFileCount);
    entry.required("event_seconds", a.events, kFileSeconds);
    entry.required("kernel_seconds", a.sum, kFileSeconds);
    entry.required("covered_seconds", a.covered, kFileSeconds);
  }
  for (JsonReader& entry : reader.objects("kernels")) {
    MeasuredKernel& k = t.kernels.emplace_back();
    entry.required("name", k.name);
    entry.required("calls", k.calls, planner::kFileCount);
    entry.required("total_seconds", k.total, kFileSeconds);
  }
  return t;
}

// A loss that is not finite is written as null, and comes back as NaN.
std::vector<double> read_loss(JsonReader& root) {
  std::vector<core::Json> values;
  std::vector<double> loss;
  root.required("loss", values);
  for (const core::Json& value : values) {
    if (value.is_number())
      loss.push_back(value.as_double());
    else if (value.is_null())
      loss.push_back(std::numeric_limits<double>::quiet_NaN());
    else
      root.problem("loss", "numbers", core::describe(value));
  }
  return loss;
}

// The rate of each step, which the file has too, follows from it.
Training read_training(JsonReader reader) {
  Training t;
  const core::NumberRange rate{0, 1e18};
  reader.required("lr", t.hyper.learning_rate, rate);
  reader.required("warmup_steps", t.warmup_steps, planner::kFileCount);
  reader.named("decay", kDecays, t.decay);
  reader.required("decay_steps", t.decay_steps, planner::kFileCount);
  if (t.decay != Decay::constant && t.decay_steps <= t.warmup_steps)
    reader.problem("decay_steps", "more steps than the warm-up", std::to_string(t.decay_steps));
  reader.required("lr_end", t.learning_rate_end, rate);
  for (const auto& [key, beta] : {std::pair("beta1", &t.hyper.beta1), {"beta2", &t.hyper.beta2}})
    reader.required(key, *beta, core::NumberRange{0, 1});
  reader.required("eps", t.hyper.epsilon, rate);
  reader.required("weight_decay", t.hyper.weight_decay, rate);
  return t;
}

void read_machine(JsonReader& root, RunRecord& record) {
  root.required("backend", record.backend);
  root.required("communicator", record.communicator);
  root.required("device", record.device);
  root.required("emulated_links", record.emulated_links);
  root.required("ranks", record.ranks, kRanks);
  root.required("steps", record.steps, core::IntRange{0, std::int64_t{1} << 40});
  if (auto environment = root.optional_object("environment"))
    for (std::string_view key : environment->keys())
      environment->required(key, record.environment[std::string(key)]);
}

}  // namespace

core::Result<RunRecord> parse_run(std::string_view text, std::string_view source_name) {
  const core::Result<core::Json> json = core::parse_json(text, source_name);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  JsonReader root(*json, std::string(source_name), "", problems);
  RunRecord record;
  std::string schema;
  constexpr std::array<std::string_view, 1> kSchemas{"run/1"};
  // Another kind of file has nothing else to say here.
  if (!root.one_of("schema", kSchemas, schema)) return problems;
  read_model(root.object("model"), source_name, record, problems);
  read_cluster(root.object("cluster"), source_name, record, problems);
  record.job = planner::read_job(root.object("job"));
  record.candidate = planner::read_candidate(root.object("candidate"));
  if (auto scaled = root.optional_object("scaled_from"))
    record.scaled_from = read_scaled(*scaled, source_name, problems);
  read_machine(root, record);
  record.loss = read_loss(root);
  if (auto training = root.optional_object("training"))
    record.training = read_training(*training);
  record.memory = read_memory(root.object("memory"));
  for (JsonReader& entry : root.objects("communication"))
    record.communication.push_back(read_communication(entry));
  for (JsonReader& entry : root.optional_objects("sent"))
    record.sent.push_back(read_sent(entry));
  record.time = read_time(root.object("time"));
  if (auto staleness = root.optional_object("staleness"))
    record.staleness = read_staleness(*staleness);
  if (auto scale = root.optional_object("loss_scale"))
    record.loss_scale = read_loss_scale(*scale);
  if (auto times = root.optional_object("device_times"))
    record.device_times = read_device_times(*times);
  if (!problems.empty()) return problems;
  return record;
}

}  // namespace exec
