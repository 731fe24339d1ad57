#include <algorithm>
#include <array>

#include "planner/evaluate/candidate_json.hpp"
#include "planner/strategy/keys.hpp"

namespace planner {
namespace {

using core::JsonReader;

// The value at a strategy's key; a file from before the key was there leaves it as it is.
template <class T, class... Limits>
bool read_key(JsonReader& reader, const StrategyKey& key, T& out, Limits... limits) {
  return key.optional ? reader.optional(key.name, out, limits...)
                      : reader.required(key.name, out, limits...);
}

void read_choice(JsonReader& reader, const StrategyKey& key, Strategy& strategy) {
  std::string text;
  const bool there = key.optional ? reader.optional_one_of(key.name, key.choices, text)
                                  : reader.one_of(key.name, key.choices, text);
  if (!there) return;
  key.put(strategy, std::ranges::find(key.choices, text) - key.choices.begin());
}

void read_list(JsonReader& reader, const StrategyKey& key, Strategy& strategy) {
  std::vector<std::string> items;
  bool done = false;
  if (key.kind == KeyKind::numbers) {
    std::vector<std::int64_t> numbers;
    done = read_key(reader, key, numbers, core::at_least(key.low));
    for (std::int64_t n : numbers) items.push_back(std::to_string(n));
  } else {
    done = read_key(reader, key, items);
  }
  if (!done) return;
  if (const auto expected = list_problem(key, items))
    reader.problem(key.name, *expected, "another list");
  else
    put_list(key, strategy, items);
}

void read_terms(JsonReader& reader, std::array<core::Bytes, program::kTerms>& terms) {
  for (int i = 0; i < program::kTerms; ++i)
    reader.required(program::name(static_cast<program::Term>(i)),
                    terms[static_cast<std::size_t>(i)], kFileBytes);
}

MemoryTerms read_memory_terms(JsonReader& reader) {
  MemoryTerms m;
  read_terms(reader, m.terms);
  reader.required("live", m.live, kFileBytes);
  reader.required("reserved", m.reserved, kFileBytes);
  reader.required("workspace", m.workspace, kFileBytes);
  reader.required("context", m.context, kFileBytes);
  reader.required("communicators", m.communicators, kFileBytes);
  reader.required("device", m.device, kFileBytes);
  reader.optional("host", m.host, kFileBytes);
  reader.optional("waiting", m.waiting, kFileBytes);
  if (auto peaks = reader.optional_object("peaks")) read_terms(*peaks, m.peaks);
  return m;
}

Throughput read_throughput(JsonReader reader) {
  Throughput t;
  reader.required("samples_per_second", t.samples_per_second, kFileNumber);
  reader.required("tokens_per_second", t.tokens_per_second, kFileNumber);
  reader.required("tokens_per_second_per_gpu", t.tokens_per_second_per_gpu, kFileNumber);
  reader.required("model_tflops_per_gpu", t.model_tflops_per_gpu, kFileNumber);
  reader.required("mfu", t.mfu, kFileNumber);
  return t;
}

Uncertainty read_uncertainty(JsonReader reader) {
  Uncertainty u;
  reader.required("step_low", u.step_low, kFileSeconds);
  reader.required("step_high", u.step_high, kFileSeconds);
  reader.required("device_low", u.device_low, kFileBytes);
  reader.required("device_high", u.device_high, kFileBytes);
  reader.optional("out_of_memory", u.out_of_memory, core::NumberRange{0, 1, false});
  reader.optional("calibration_runs", u.calibration_runs, kFileCount);
  reader.optional("similar_runs", u.similar_runs, kFileCount);
  return u;
}

}  // namespace

Strategy read_strategy(JsonReader reader) {
  Strategy strategy;
  for (const StrategyKey& key : strategy_keys()) {
    if (key.is_list()) {
      read_list(reader, key, strategy);
    } else if (key.kind == KeyKind::choice) {
      read_choice(reader, key, strategy);
    } else if (key.kind == KeyKind::boolean) {
      bool value = false;
      if (read_key(reader, key, value)) key.put(strategy, value ? 1 : 0);
    } else {
      std::int64_t value = key.optional ? key.get(strategy) : 0;
      if (read_key(reader, key, value, core::IntRange{key.low, key.high}))
        key.put(strategy, value);
    }
  }
  return strategy;
}

Memory read_memory(JsonReader reader) {
  Memory memory;
  reader.required("rank", memory.rank, core::IntRange{0, 1 << 24});
  memory.worst = read_memory_terms(reader);
  reader.required("usable", memory.usable, kFileBytes);
  reader.optional("estimated", memory.estimated);
  for (JsonReader& stage : reader.objects("stages")) {
    StageMemory entry;
    stage.required("stage", entry.stage, core::IntRange{0, 1 << 24});
    entry.memory = read_memory_terms(stage);
    memory.stages.push_back(entry);
  }
  return memory;
}

Time read_time(JsonReader reader) {
  Time time;
  reader.required("step", time.step, kFileSeconds);
  reader.required("compute", time.compute, kFileSeconds);
  reader.required("exposed_communication", time.exposed_communication, kFileSeconds);
  reader.required("bubble", time.bubble, kFileSeconds);
  reader.required("optimizer", time.optimizer, kFileSeconds);
  reader.required("communication", time.communication, kFileSeconds);
  reader.optional("launch_bound", time.launch_bound);
  return time;
}

CommunicationEntry read_communication(JsonReader reader) {
  CommunicationEntry entry;
  reader.required("what", entry.what);
  reader.required("collective", entry.collective);
  reader.required("algorithm", entry.algorithm);
  reader.required("group_size", entry.group_size, core::IntRange{1, 1 << 24});
  reader.required("count", entry.count, kFileCount);
  reader.required("payload_bytes", entry.payload, kFileBytes);
  reader.required("wire_bytes_per_rank", entry.wire_per_rank, kFileBytes);
  reader.optional("seconds", entry.seconds, kFileSeconds);
  entry.library = read_library_calls(reader);
  return entry;
}

std::vector<program::LibraryCalls> read_library_calls(JsonReader& entry) {
  std::vector<program::LibraryCalls> all;
  for (JsonReader& reader : entry.optional_objects("library")) {
    program::LibraryCalls c;
    reader.required("algorithm", c.algorithm);
    reader.required("protocol", c.protocol);
    reader.required("channels", c.channels, core::IntRange{0, 1 << 16});
    reader.required("count", c.count, kFileCount);
    reader.required("payload_bytes", c.payload, kFileBytes);
    reader.required("smallest_bytes", c.smallest, kFileBytes);
    reader.required("largest_bytes", c.largest, kFileBytes);
    all.push_back(std::move(c));
  }
  return all;
}

Candidate read_candidate(JsonReader reader) {
  Candidate candidate;
  candidate.strategy = read_strategy(reader.object("strategy"));
  candidate.memory = read_memory(reader.object("memory"));
  candidate.time = read_time(reader.object("time"));
  for (JsonReader& entry : reader.objects("communication"))
    candidate.communication.push_back(read_communication(entry));
  candidate.throughput = read_throughput(reader.object("throughput"));
  candidate.uncertainty = read_uncertainty(reader.object("uncertainty"));
  constexpr std::array<std::string_view, 3> kEvaluators{"closed_form", "sweep", "simulated"};
  reader.one_of("evaluator", kEvaluators, candidate.evaluator);
  return candidate;
}

Job read_job(JsonReader reader) {
  Job job;
  const std::array modes{Mode::train, Mode::finetune, Mode::inference};
  reader.named("mode", modes, job.mode);
  reader.required("seq_len", job.seq_len, core::IntRange{1, std::int64_t{1} << 24});
  reader.required("global_batch", job.global_batch, core::IntRange{1, std::int64_t{1} << 30});
  reader.one_of("recipe", recipe_names(), job.recipe);

  std::string precision, optimizer_name;
  constexpr std::array<std::string_view, 4> kPrecisions{"bf16", "fp16", "fp8", "nvfp4"};
  if (reader.one_of("precision", kPrecisions, precision))
    job.precision = *precision_from_name(precision);
  std::vector<std::string_view> known;
  for (const Optimizer& o : optimizers()) known.push_back(o.name);
  if (reader.one_of("optimizer", known, optimizer_name))
    job.optimizer = *optimizer_from_name(optimizer_name);

  reader.required("lora_rank", job.lora_rank, core::IntRange{0, 1 << 20});
  reader.required("lora_targets", job.lora_targets);
  reader.required("quantization", job.quantization);
  reader.required("attention", job.attention);
  reader.required("framework", job.framework);
  reader.optional("fused_norm", job.fused_norm);
  reader.optional("compile", job.compile);
  reader.optional("fp8_scaling", job.fp8_scaling);
  reader.optional("fp8_tensors", job.fp8_tensors);
  reader.optional("mtp_layers", job.mtp_layers, core::IntRange{0, models::kMaxMtpLayers});
  reader.optional("expert_imbalance", job.expert_imbalance, core::NumberRange{1, kMostImbalance});
  reader.optional("clip", job.clip, core::NumberRange{0, kMostClip});
  // Plans of fp16 that say nothing are from before there was one.
  std::string scale = job.precision == core::DType::f16 ? "none" : "dynamic";
  reader.optional("loss_scale", scale);
  const auto loss_scale = loss_scale_from_text(scale);
  if (!loss_scale) reader.problem("loss_scale", "dynamic, none or a number", scale);
  job.loss_scale = loss_scale.value_or(0);
  std::string reduce;
  if (reader.optional("reduce_dtype", reduce)) {
    job.reduce_dtype = core::dtype_from_name(reduce);
    if (!job.reduce_dtype) reader.problem("reduce_dtype", "a type, as f32 or bf16", reduce);
  }
  return job;
}

}  // namespace planner
