// Options of Megatron-LM (NVIDIA/Megatron-LM d98e8a6, megatron/training/arguments.py) as a job and
// pins: what emit/megatron.cpp writes, and what else scripts have.
#include "reports/imports/megatron.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/modules.hpp"
#include "models/zoo.hpp"
#include "reports/imports/patterns.hpp"

namespace reports::imports {
namespace {

using planner::Checkpoint;
using planner::Schedule;

// A number of the launcher, where it is one: "auto", "gpu" and variables say nothing.
std::optional<std::int64_t> launcher_count(Facts& f, std::string_view key) {
  for (const Setting& s : f.settings.all()) {
    if (s.key != key || !s.sure) continue;
    const std::string value = s.value();
    if (!value.empty() && value.find_first_not_of("0123456789") == std::string::npos)
      return f.settings.count(key, "--gpus");
    f.settings.leave(key, "no number that the file states");
    return std::nullopt;
  }
  return std::nullopt;
}

void read_gpus(Facts& f) {
  const auto of_node = launcher_count(f, "--nproc_per_node");
  const auto nodes = launcher_count(f, "--nnodes");
  auto slurm_nodes = launcher_count(f, "--nodes");
  if (!slurm_nodes) slurm_nodes = launcher_count(f, "-N");
  auto slurm_gpus = launcher_count(f, "--ntasks-per-node");
  const auto others = launcher_count(f, "--gpus-per-node");
  if (!slurm_gpus || *slurm_gpus == 1) slurm_gpus = others ? others : slurm_gpus;
  const auto per_node = of_node ? of_node : slurm_gpus;
  if (!per_node) return;
  f.gpus = *per_node * nodes.value_or(slurm_nodes.value_or(1));
}

void read_degrees(Facts& f) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  out.tensor = s.count("--tensor-model-parallel-size", "tensor").value_or(1);
  out.pipeline = s.count("--pipeline-model-parallel-size", "pipeline").value_or(1);
  out.context = s.count("--context-parallel-size", "context").value_or(1);
  for (const char* key : {"tensor", "pipeline", "context"}) f.say(key);
  const bool rows = s.flag("--sequence-parallel", "sequence_parallel");
  out.sequence_parallel = rows && out.tensor > 1;
  if (out.tensor > 1) f.say("sequence_parallel");
  const auto ways = s.text("--cp-comm-type", "context_method");
  if (out.context > 1) {
    using planner::ContextMethod;
    const std::string way = ways.value_or("p2p");
    out.context_method = way == "a2a"                              ? ContextMethod::exchange
                         : way == "all_gather" || way == "allgather" ? ContextMethod::gather
                                                                   : ContextMethod::ring;
    if (way != "p2p" && way != "a2a" && way != "all_gather" && way != "allgather")
      s.leave("--cp-comm-type", "one way for all layers is planned: context_method=ring stands");
    f.say("context_method");
  }
  using enum planner::Degree;
  if (s.flag("--use-tp-pp-dp-mapping", "mesh_order")) {
    out.mesh_order = {tensor, context, pipeline, data};
    f.say("mesh_order");
  }
}

void read_expert_ranks(Facts& f) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  const auto ranks = s.count("--expert-model-parallel-size", "expert");
  const auto divides = s.count("--expert-tensor-parallel-size", "expert_tensor");
  const bool mixture = f.sizes && f.sizes->spec.variants.experts > 0;
  const bool kinds = f.sizes && !f.sizes->spec.kinds.empty();
  if (!ranks && !mixture && !kinds) return;
  out.expert = ranks.value_or(1);
  f.say("expert");
  const std::int64_t whole = divides.value_or(out.tensor);
  if (out.expert > 1 && whole == 1 && out.tensor > 1) out.expert_tensor = 1;
  if (whole != 1 && whole != out.tensor)
    s.leave("--expert-tensor-parallel-size",
            "experts are planned whole or divided over all tensor ranks");
  if (out.expert > 1 && out.tensor > 1) f.say("expert_tensor");
  auto dispatch = s.text("--moe-token-dispatcher-type", "expert_dispatch");
  const bool deepep = s.flag("--moe-enable-deepep", "expert_dispatch");
  if (dispatch == "flex" && !deepep) {
    const auto backend = s.text("--moe-flex-dispatcher-backend", "expert_dispatch");
    if (backend && *backend != "deepep")
      s.leave("--moe-flex-dispatcher-backend", "planned as DeepEP: nothing measured of this one");
  }
  if (dispatch == "allgather")
    s.leave("--moe-token-dispatcher-type", "rows are planned to travel by all-to-all");
  if (dispatch == "flex") out.expert_dispatch = planner::ExpertDispatch::deepep;
  out.expert_overlap = s.flag("--overlap-moe-expert-parallel-comm", "expert_overlap");
  f.say("expert_dispatch");
  f.say("expert_overlap");
}

// Layers of each stage where nothing but --num-layers says them; empty: they do not divide.
std::vector<std::int64_t> even_stages(Facts& f, std::int64_t layers, std::int64_t chunks) {
  Settings& s = f.settings;
  const std::int64_t first = s.flag("--account-for-embedding-in-pipeline-split", "stages") ? 1 : 0;
  const std::int64_t last = s.flag("--account-for-loss-in-pipeline-split", "stages") ? 1 : 0;
  const auto own_first = s.count("--decoder-first-pipeline-num-layers", "stages");
  const auto own_last = s.count("--decoder-last-pipeline-num-layers", "stages");
  const std::int64_t ends = (own_first ? 1 : 0) + (own_last ? 1 : 0);
  const std::int64_t rest = layers - own_first.value_or(0) - own_last.value_or(0) + first + last;
  const std::int64_t middle = chunks - ends;
  if (chunks > layers + 2 || middle < 0 || rest < 0 ||
      (middle > 0 ? rest % middle != 0 : rest != 0))
    return {};
  std::vector<std::int64_t> stages;
  if (own_first) stages.push_back(*own_first);
  for (std::int64_t i = 0; i < middle; ++i) stages.push_back(rest / middle);
  if (own_last) stages.push_back(*own_last);
  stages.front() -= first;
  stages.back() -= last;
  return stages;
}

// By the files, else by the model that the user names; 0: nobody says.
std::int64_t layers_of_setup(const Facts& f) {
  if (f.sizes) return f.sizes->spec.layers;
  const auto model = models::find_model(f.model);
  return f.model.empty() || !model.ok() ? 0 : models::layers_of(*model);
}

// Chunks of every rank: 1 without interleaving.
std::int64_t virtual_stages(Facts& f, std::int64_t layers) {
  Settings& s = f.settings;
  const auto chunks = s.count("--num-virtual-stages-per-pipeline-rank", "virtual_stages");
  const auto each = s.count("--num-layers-per-virtual-pipeline-stage", "virtual_stages");
  if (chunks) return *chunks;
  return each && layers > 0 ? std::max<std::int64_t>(1, layers / f.strategy.pipeline / *each) : 1;
}

void read_stages(Facts& f) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  const std::int64_t layers = layers_of_setup(f);
  const Setting* const laid = s.take("--pipeline-model-parallel-layout", "stages");
  out.virtual_stages = virtual_stages(f, layers);
  if (laid != nullptr) {
    const auto layout = pipeline_layout(laid->value());
    if (!layout || std::ssize(layout->layers) % out.pipeline != 0) {
      s.problem(*laid, fmt::format("chunks as Et*4|t*5|t*3L, a multiple of {}", out.pipeline));
      return;
    }
    out.stages = layout->layers;
    out.virtual_stages = std::ssize(out.stages) / out.pipeline;
    if (layout->others)
      f.notes.emplace_back("the layout places modules for multi-token prediction before the last "
                           "chunk: they are planned in the last one");
  } else if (out.pipeline > 1 && layers > 0) {
    out.stages = even_stages(f, layers, out.pipeline * out.virtual_stages);
    if (out.stages.empty())
      f.problems.push_back({"--pipeline-model-parallel-size",
                            fmt::format("stages that {} layers divide into", layers),
                            fmt::format("{} x {}", out.pipeline, out.virtual_stages), ""});
  }
  if (out.pipeline == 1) {
    out.stages.clear();
    out.virtual_stages = 1;
    return;
  }
  out.schedule = out.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  f.say("schedule");
  if (out.virtual_stages > 1) f.say("virtual_stages");
  if (!out.stages.empty()) f.say("stages");
}

void read_sharding(Facts& f) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  for (const char* key : {"--use-megatron-fsdp", "--use-torch-fsdp2"})
    s.leave(key, "weights that are divided over data ranks are not planned for Megatron-LM: "
                 "sharding=zero1 or none stands");
  const bool divided = s.flag("--use-distributed-optimizer", "sharding");
  out.offload.clear();
  const bool offloads = s.flag("--optimizer-cpu-offload", "offload");
  const auto share = s.number("--optimizer-offload-fraction", "offload");
  if (offloads && share.value_or(1) < 1)
    s.leave("--optimizer-offload-fraction", "planned with all of the optimizer on the host");
  if (offloads && share != 0) out.offload = {"optimizer"};
  f.say("offload");
  out.sharding = divided ? planner::Sharding::zero1 : planner::Sharding::none;
  f.say("sharding");
  const bool reduces = s.flag("--overlap-grad-reduce", "overlap");
  const bool gathers = s.flag("--overlap-param-gather", "overlap");
  out.overlap = reduces;
  f.say("overlap");
  if (reduces && divided && !gathers)
    s.leave_default("--overlap-param-gather", "not given",
                    "planned as if gathers were overlapped too, since overlap is one key");
  out.tp_overlap = s.flag("--tp-comm-overlap", "tp_overlap") && out.tensor > 1;
  if (out.tensor > 1) f.say("tp_overlap");
  f.say("loss_chunks");
}

void read_recomputation(Facts& f) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  f.say("checkpoint");
  const bool old = s.flag("--recompute-activations", "checkpoint");
  const auto how = s.one_of("--recompute-granularity", "checkpoint", {"full", "selective"});
  const auto method = s.one_of("--recompute-method", "checkpoint", {"uniform", "block"});
  const auto layers = s.count("--recompute-num-layers", "checkpoint");
  const Setting* const modules = s.take("--recompute-modules", "checkpoint");
  if (how == "full") {
    out.checkpoint = method == "block" ? Checkpoint::first_k : Checkpoint::every_k;
    out.checkpoint_every = layers.value_or(1);
    return;
  }
  // What --recompute-granularity selective with the module moe replaced.
  const bool mixtures = s.flag("--moe-layer-recompute", "checkpoint");
  if (mixtures && how != "selective" && !old) {
    out.checkpoint = Checkpoint::modules;
    out.recompute_modules = models::set_of(models::Module::moe);
    return;
  }
  if (how != "selective" && !old) return;
  out.checkpoint = Checkpoint::selective;
  if (modules == nullptr || modules->value() == "core_attn") return;
  out.checkpoint = Checkpoint::modules;
  out.recompute_modules = 0;
  for (const std::string& word : modules->words) {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t end = std::min(word.find_first_of(" ,", at), word.size());
      const std::string one = word.substr(at, end - at);
      at = end + 1;
      if (one.empty()) continue;
      const auto known = std::ranges::find(models::kModuleNames, one);
      if (known == models::kModuleNames.end()) {
        s.problem(*modules, fmt::format("of {}", fmt::join(models::kModuleNames, ", ")));
        return;
      }
      const auto module = static_cast<models::Module>(known - models::kModuleNames.begin());
      out.recompute_modules = models::both(out.recompute_modules, models::set_of(module));
    }
  }
}

// Megatron stores the weights that it gathers in 8 bits as codes alone.
void read_f8_weights(Facts& f, std::string_view scaling) {
  constexpr const char* kKey = "--fp8-param-gather";
  Settings& s = f.settings;
  if (!s.flag(kKey, "--fp8-tensors")) return;
  if (scaling.empty())
    s.leave(kKey, "without --fp8-format it changes nothing");
  else if (scaling == "mxfp8")
    s.leave(kKey, "with mxfp8 weights are gathered in 16 bits, as planned");
  else if (f.strategy.sharding != planner::Sharding::zero1)
    s.leave(kKey, "planned in 16 bits: Megatron-LM asks for --use-distributed-optimizer");
  else if (!f.strategy.offload.empty())
    s.leave(kKey, "planned in 16 bits where the optimizer is on the host");
  else
    f.ask("--fp8-tensors", "params");
}

void read_precision(Facts& f) {
  Settings& s = f.settings;
  const bool b16 = s.flag("--bf16", "--precision"), f16 = s.flag("--fp16", "--precision");
  const auto f8 = s.one_of("--fp8-format", "--precision", {"hybrid", "e4m3"});
  const auto recipe = s.one_of("--fp8-recipe", "--fp8-scaling",
                               {"tensorwise", "delayed", "blockwise", "mxfp8"});
  const auto f4 = s.one_of("--fp4-format", "--precision", {"e2m1"});
  s.one_of("--fp4-recipe", "--precision", {"nvfp4"});
  const bool short_sums = s.flag("--grad-reduce-in-bf16", "--recipe");
  const bool wide_sums = s.flag("--accumulate-allreduce-grads-in-fp32", "--recipe");
  const bool aware = s.flag("--use-precision-aware-optimizer", "--recipe");
  const auto first = s.text("--exp-avg-dtype", "--recipe");
  const auto second = s.text("--exp-avg-sq-dtype", "--recipe");
  if (!b16 && !f16) {
    f.ask("--recipe", "fp32");
    return;
  }
  // In fp16 gradients are added up in it unless --accumulate-allreduce-grads-in-fp32 asks.
  const bool narrow = aware && first == "bf16" && second == "bf16";
  const bool short_gradients = b16 ? short_sums : !wide_sums;
  if (aware && !narrow && (first.value_or("fp32") != "fp32" || second.value_or("fp32") != "fp32"))
    s.leave("--exp-avg-dtype", "moments are planned in f32, or both in bf16");
  f.ask("--recipe", narrow ? "megatron_bf16_moments" : short_gradients ? "mixed" : "megatron");
  f.ask("--precision", f8 ? "fp8" : f4 ? "nvfp4" : b16 ? "bf16" : "fp16");
  if (const auto scale = s.text("--loss-scale", "--loss-scale"); scale && f16 && !b16)
    f.ask("--loss-scale", *scale);
  const std::string scaling = f8 ? recipe.value_or("delayed") : "";
  if (f8) f.ask("--fp8-scaling", scaling);
  read_f8_weights(f, scaling);
}

void read_attention(Facts& f) {
  Settings& s = f.settings;
  const auto backend = s.one_of("--attention-backend", "--attention",
                                {"auto", "flash", "fused", "unfused", "local"});
  const bool apart = s.flag("--no-masked-softmax-fusion", "--attention");
  if (backend == "flash")
    s.leave_default("--attention-backend", "flash", "planned with the kernels that the framework "
                    "takes by itself: cuDNN's from Hopper on");
  const bool stored = backend == "unfused" || backend == "local";
  s.flag("--use-flash-attn", "--attention");
  f.ask("--attention", !stored ? "flash2" : apart ? "unfused" : "fused_softmax");
}

// What a default decides that the plan does not count, or counts otherwise.
void note_defaults_of_megatron(Facts& f) {
  Settings& s = f.settings;
  for (const char* key : {"--hidden-dropout", "--attention-dropout"}) {
    const auto share = s.number(key, "no dropout");
    const std::string why = "dropout is left out: its masks take memory and time";
    if (!share) s.leave_default(key, "0.1, its default", why);
    else if (*share != 0) s.leave(key, why);
  }
  const auto multiple = s.count("--make-vocab-size-divisible-by", "rows of the vocabulary");
  if (!s.has("--padded-vocab-size")) f.vocab_multiple = multiple.value_or(128);
}

}  // namespace

void read_megatron(Facts& f) {
  Settings& s = f.settings;
  const bool local = s.one_of("--transformer-impl", "--framework",
                              {"local", "transformer_engine"}) == "local" ||
                     s.flag("--use-legacy-models", "--framework");
  f.framework = local ? "megatron" : "megatron_core";
  read_gpus(f);
  f.seq_len = s.count("--seq-length", "--seq");
  f.global_batch = s.count("--global-batch-size", "--global-batch");
  const auto micro = s.count("--micro-batch-size", "micro_batch");
  if (micro) f.strategy.micro_batch = *micro;
  if (micro) f.say("micro_batch");
  if (!micro && f.problems.empty())
    f.problems.push_back({"the script", "--micro-batch-size", "none", "Megatron-LM demands it"});
  if (micro && !f.global_batch) f.grad_accum = 1;  // as validate_args has it
  f.mtp_layers = s.count("--mtp-num-layers", "--mtp", 0).value_or(0);
  read_degrees(f);
  read_megatron_model(f);
  read_expert_ranks(f);
  read_stages(f);
  read_sharding(f);
  read_recomputation(f);
  read_precision(f);
  read_clip(f, {"--clip-grad"}, 1);
  const auto optimizer = s.text("--optimizer", "--optimizer");
  if (optimizer && *optimizer != "adam" && *optimizer != "sgd")
    s.leave("--optimizer", "planned as AdamW: this one is not known here");
  f.ask("--optimizer", optimizer == "sgd" ? "sgd" : "adamw");
  read_attention(f);
  note_defaults_of_megatron(f);
}

}  // namespace reports::imports
