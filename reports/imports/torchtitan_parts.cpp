// What torchtitan's configurations have in common, whatever their form: degrees, sharding, stages,
// types (pytorch/torchtitan 000204a and b5bcd76, torchtitan/distributed/pipeline_parallel.py).
#include "reports/imports/torchtitan.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "models/zoo.hpp"

namespace reports::imports {
namespace {

using planner::Schedule;

// Its models by name and size, where the zoo has them.
struct Flavor {
  std::string_view model, flavor, zoo;
};
constexpr std::array kFlavors{
    Flavor{"llama3", "1B", "llama3.2-1b"},
    Flavor{"llama3", "3B", "llama3.2-3b"},
    Flavor{"llama3", "8B", "llama3-8b"},
    Flavor{"llama3", "70B", "llama3-70b"},
    Flavor{"llama3", "405B", "llama3.1-405b"},
    Flavor{"qwen3", "0.6B", "qwen3-0.6b"},
    Flavor{"qwen3", "1.7B", "qwen3-1.7b"},
    Flavor{"qwen3", "4B", "qwen3-4b"},
    Flavor{"qwen3", "8B", "qwen3-8b"},
    Flavor{"qwen3", "14B", "qwen3-14b"},
    Flavor{"qwen3", "32B", "qwen3-32b"},
    Flavor{"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    Flavor{"qwen3", "235B-A22B", "qwen3-235b-a22b"},
    Flavor{"deepseek_v3", "16B", "deepseek-v2-lite"},
    Flavor{"deepseek_v3", "236B", "deepseek-v2"},
    Flavor{"deepseek_v3", "671B", "deepseek-v3"},
    Flavor{"gpt_oss", "20b", "gpt-oss-20b"},
    Flavor{"gpt_oss", "120b", "gpt-oss-120b"},
    Flavor{"llama4", "17bx16e", "llama-4-scout"},
    Flavor{"llama4", "17bx128e", "llama-4-maverick"},
};

// [["tok_embeddings", "layers.0"], ...]: layers of each chunk, by the text of the lists.
std::optional<std::vector<std::int64_t>> chunks_of(const Setting& parts) {
  std::vector<std::int64_t> layers;
  for (const std::string& part : parts.words) {
    std::int64_t count = 0;
    constexpr std::string_view kLayer = "\"layers.";
    for (std::size_t at = part.find(kLayer); at != std::string::npos;
         at = part.find(kLayer, at + 1))
      ++count;
    if (!part.starts_with('[')) return std::nullopt;
    layers.push_back(count);
  }
  return layers;
}

// As torchtitan divides layers where nobody names modules: embeddings and head count as layers.
std::vector<std::int64_t> own_chunks(std::int64_t layers, std::int64_t chunks, std::int64_t first,
                                     std::int64_t last) {
  std::vector<std::int64_t> all;
  const std::int64_t each = (layers + first + last) / chunks;
  const std::int64_t extra = (layers + first + last) % chunks;
  for (std::int64_t i = 0; i < chunks; ++i)
    all.push_back(each + (i < extra ? 1 : 0) - (i == 0 ? first : 0) - (i == chunks - 1 ? last : 0));
  return all;
}

std::optional<Schedule> titan_schedule(std::string_view name) {
  const auto lower = [](std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return out;
  };
  for (const planner::ScheduleDef& def : planner::kSchedules)
    if (!def.torch.empty() && lower(def.torch) == lower(name)) return def.schedule;
  return std::nullopt;
}

}  // namespace

void name_titan_model(Facts& f, std::string_view name, std::string_view flavor,
                      const std::string& where) {
  if (!f.model.empty()) return;
  for (const Flavor& one : kFlavors)
    if (name == one.model && flavor == one.flavor) f.model = one.zoo;
  if (f.model.empty() && f.problems.empty())
    f.problems.push_back({where, "a model and size that are known here",
                          fmt::format("{} {}", name, flavor), "name the model with --model"});
}

void read_titan_degrees(Facts& f, std::string_view asynchronous) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  out.tensor = s.count("parallelism.tensor_parallel_degree", "tensor").value_or(1);
  out.pipeline = s.count("parallelism.pipeline_parallel_degree", "pipeline").value_or(1);
  out.context = s.count("parallelism.context_parallel_degree", "context").value_or(1);
  for (const char* key : {"tensor", "pipeline", "context"}) f.say(key);
  out.sequence_parallel = out.tensor > 1;
  const bool async = s.flag(asynchronous, "tp_overlap");
  out.tp_overlap = async && out.tensor > 1;
  if (out.tensor > 1) f.say("sequence_parallel");
  if (out.tensor > 1) f.say("tp_overlap");
  if (const auto experts = s.count("parallelism.expert_parallel_degree", "expert")) {
    out.expert = *experts;
    f.say("expert");
  }
}

void read_titan_sharding(Facts& f, const Given& given) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  const std::int64_t replicas =
      s.count("parallelism.data_parallel_replicate_degree", "data").value_or(1);
  std::optional<std::int64_t> shards;
  if (const Setting* const degree = s.take("parallelism.data_parallel_shard_degree", "data"))
    if (degree->value() != "-1") shards = s.count("parallelism.data_parallel_shard_degree", "data");
  const std::int64_t model_ranks = out.tensor * out.pipeline * out.context;
  // On other GPUs than the file's, weights are divided over all of them as before.
  const bool follows = !shards || (replicas == 1 && *shards > 1);
  if (follows && given.gpus && *given.gpus % (replicas * model_ranks) == 0)
    shards = *given.gpus / (replicas * model_ranks);
  if (shards && model_ranks <= (std::int64_t{1} << 20)) f.gpus = replicas * *shards * model_ranks;
  if (given.gpus && shards && replicas > 1 && *given.gpus != replicas * *shards * model_ranks)
    f.notes.emplace_back(
        "other GPUs than the degrees of the file make: ranks that share weights "
        "stay as many");
  f.shard_ranks = shards;
  const auto reshard =
      s.one_of("parallelism.fsdp_reshard_after_forward", "sharding", {"default", "always", "never"})
          .value_or("default");
  const bool divides = !shards || *shards * out.context > 1;
  const bool kept = reshard == "never" || (reshard == "default" && out.pipeline > 1);
  out.sharding = !divides ? planner::Sharding::none
                 : kept   ? planner::Sharding::zero2
                          : planner::Sharding::zero3;
  f.say("sharding");
  if (s.flag("training.enable_cpu_offload", "offload")) out.offload = {"params"};
  f.say("offload");
}

void read_titan_stages(Facts& f) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  const Setting* const named = s.take("parallelism.module_fqns_per_model_part", "stages");
  const auto schedule = s.text("parallelism.pipeline_parallel_schedule", "schedule");
  const auto each = s.count("parallelism.pipeline_parallel_layers_per_stage", "stages");
  const std::int64_t first =
      s.count("parallelism.pipeline_parallel_first_stage_less_layers", "stages", 0).value_or(1);
  const std::int64_t last =
      s.count("parallelism.pipeline_parallel_last_stage_less_layers", "stages", 0).value_or(1);
  if (out.pipeline == 1) return;
  const auto known = titan_schedule(schedule.value_or("1F1B"));
  if (!known) {
    s.leave("parallelism.pipeline_parallel_schedule", "a schedule that is not planned here");
    return;
  }
  out.schedule = *known;
  f.say("schedule");
  if (named != nullptr) {
    const auto chunks = chunks_of(*named);
    if (!chunks) return s.problem(*named, "a list of lists of modules");
    out.stages = *chunks;
  } else if (const auto model = models::find_model(f.model); model.ok()) {
    const std::int64_t layers = models::layers_of(*model), effective = layers + first + last;
    const bool several = planner::schedule_def(*known).chunks != planner::ChunksOfRank::one;
    const std::int64_t chunks =
        each ? (effective + *each - 1) / *each : out.pipeline * (several ? 2 : 1);
    if (chunks > effective || first > effective / chunks || last > effective / chunks)
      return f.problems.push_back(
          {"parallelism.pipeline_parallel_degree",
           fmt::format("at most one stage for each of {} layers", effective),
           std::to_string(chunks), ""});
    out.stages = own_chunks(layers, chunks, first, last);
  }
  if (out.stages.empty() && !f.problems.empty()) return;  // the model is not known
  if (out.stages.empty() || std::ssize(out.stages) % out.pipeline != 0) {
    f.problems.push_back({"parallelism: the number of stages",
                          fmt::format("a multiple of {} of them", out.pipeline),
                          std::to_string(out.stages.size()), ""});
    return;
  }
  out.virtual_stages = std::ssize(out.stages) / out.pipeline;
  f.say("stages");
  if (out.virtual_stages > 1) f.say("virtual_stages");
}

void read_titan_batch(Facts& f) {
  Settings& s = f.settings;
  f.seq_len = s.count("training.seq_len", "--seq").value_or(2048);
  const auto old = s.count("training.batch_size", "micro_batch");
  const std::int64_t local =
      s.count("training.local_batch_size", "micro_batch").value_or(old.value_or(8));
  const auto piece = s.count("parallelism.pipeline_parallel_microbatch_size", "micro_batch");
  const bool staged = f.strategy.pipeline > 1;
  f.strategy.micro_batch = staged ? piece.value_or(1) : local;
  f.say("micro_batch");
  const Setting* const global = s.take("training.global_batch_size", "--global-batch");
  if (global != nullptr && global->value() != "-1")
    f.global_batch = s.count("training.global_batch_size", "--global-batch");
  if (local % f.strategy.micro_batch != 0)
    f.problems.push_back({"[training] local_batch_size",
                          fmt::format("a multiple of {}, pipeline_parallel_microbatch_size",
                                      f.strategy.micro_batch),
                          std::to_string(local), ""});
  else if (!f.global_batch)
    f.grad_accum = local / f.strategy.micro_batch;
}

void read_titan_precision(Facts& f, std::string_view scaling) {
  Settings& s = f.settings;
  const auto types = {std::string_view("bfloat16"), std::string_view("float32")};
  const auto stored = s.one_of("training.dtype", "--recipe", types);
  const auto computed = s.one_of("training.mixed_precision_param", "--recipe", types);
  const auto reduced = s.one_of("training.mixed_precision_reduce", "--reduce-dtype", types);
  const bool whole = computed == "float32";
  f.ask("--recipe", whole ? "fp32" : stored == "bfloat16" ? "pure_bf16" : "fsdp2");
  if (!scaling.empty()) f.ask("--fp8-scaling", std::string(scaling));
  if (!whole) f.ask("--precision", scaling.empty() ? "bf16" : "fp8");
  if (reduced == "bfloat16" && !whole) f.ask("--reduce-dtype", "bf16");
  read_clip(f, {"training.max_norm"}, 1);
}

void leave_titan_compiler(Facts& f, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (f.settings.flag(key, "nothing: the plan counts on no compiler either"))
      f.settings.leave(key, "the plan counts on no compiler: the run is faster than planned");
}

}  // namespace reports::imports
