#include "cli/job_options.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/choose.hpp"
#include "cli/number_list.hpp"
#include "cli/output.hpp"
#include "models/graph.hpp"
#include "models/layer_kinds.hpp"

namespace cli {
namespace {

constexpr std::string_view kAllLinear = "all-linear";
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 30;

// "all-linear" is every matrix of a layer, as peft has it.
void read_lora(const PlanOptions& options, const models::ModelSpec& model, planner::Job& job,
               core::Problems& problems) {
  if (const auto rank = whole_number(options.lora_rank, "--lora-rank", 0, problems))
    job.lora_rank = *rank;
  if (!options.lora_targets) return;
  Names names = models::lora_targets_of(model);
  if (*options.lora_targets == kAllLinear) {
    job.lora_targets.assign(names.begin(), names.end());
    return;
  }
  names.push_back(kAllLinear);
  job.lora_targets = split_list(*options.lora_targets);
  std::string ignored;
  for (const std::string& target : job.lora_targets)
    choose(target, "--lora-targets", names, ignored, problems);
}

double imbalance(const PlanOptions& options, const models::ModelSpec& model,
                 core::Problems& problems) {
  if (!options.expert_imbalance) return 1;
  if (options.model && !model.name.empty() && !models::has_experts(model))
    problems.push_back({"--expert-imbalance", "a mixture of experts",
                        model.name + ", which is none", "leave it out"});
  const std::string& text = *options.expert_imbalance;
  const auto value = parse_decimal(text);
  if (value && *value >= 1 && *value <= planner::kMostImbalance) return *value;
  problems.push_back({"--expert-imbalance",
                      fmt::format("a number from 1 to {:g}", planner::kMostImbalance),
                      fmt::format("\"{}\"", text),
                      "write 1.2 where the busiest rank gets 1.2 times an equal share"});
  return 1;
}

double clip_of(const PlanOptions& options, core::Problems& problems) {
  if (!options.clip) return 0;
  const auto value = parse_decimal(*options.clip);
  if (value && *value >= 0 && *value <= planner::kMostClip) return *value;
  problems.push_back({"--clip", fmt::format("a norm from 0 (no limit) to {:g}", planner::kMostClip),
                      fmt::format("\"{}\"", *options.clip), "write 1 as most recipes do"});
  return 0;
}

double loss_scale_of(const PlanOptions& options, core::Problems& problems) {
  if (!options.loss_scale) return planner::Job{}.loss_scale;
  const auto value = planner::loss_scale_from_text(*options.loss_scale);
  if (!value)
    problems.push_back({"--loss-scale",
                        fmt::format("dynamic, none or a number from 1 to {:.0f}",
                                    planner::kMostLossScale),
                        fmt::format("\"{}\"", *options.loss_scale), "leave it out for dynamic"});
  return value.value_or(planner::Job{}.loss_scale);
}

// What a model has none of cannot be kept or sent in fewer bits.
std::string what_lacks(std::string_view tensor, const models::ModelSpec& model) {
  const bool experts = models::has_experts(model);
  const bool gated = models::any_kind(
      model, [](const models::LayerView& kind) { return models::is_gated(kind.variants.ffn); });
  if (tensor == "dispatch" && !experts) return "experts, to which rows travel";
  if (tensor == "params" && !models::is_transformer(model.family)) return "layers of a transformer";
  if (tensor == "activation_input" && !experts && !gated) return "gated feed-forward layers";
  return "";
}

void read_fp8_tensors(const PlanOptions& options, const models::ModelSpec& model,
                      planner::Job& job, core::Problems& problems) {
  const bool given = options.fp8_scaling || options.fp8_tensors;
  if (given && job.precision != core::DType::f8)
    problems.push_back({"--fp8-scaling, --fp8-tensors", "with --precision fp8 alone",
                        std::string(planner::precision_name(job.precision)),
                        "add --precision fp8"});
  if (!options.fp8_tensors) return;
  for (const std::string& name : split_list(*options.fp8_tensors)) {
    const bool known = std::ranges::count(planner::kFp8Tensors, name) > 0;
    if (known && std::ranges::count(job.fp8_tensors, name) == 0) job.fp8_tensors.push_back(name);
    const std::string lacks = model.name.empty() ? "" : what_lacks(name, model);
    if (!lacks.empty())
      problems.push_back({"--fp8-tensors", fmt::format("a model that has {}", lacks),
                          fmt::format("{} with {}", name, model.name),
                          fmt::format("leave {} out", name)});
    if (!known)
      problems.push_back({"--fp8-tensors",
                          fmt::format("of {}", fmt::join(planner::kFp8Tensors, ", ")),
                          fmt::format("\"{}\"", name), ""});
  }
}

}  // namespace

planner::Job read_job(const PlanOptions& options, const models::ModelSpec& model,
                      core::Problems& problems) {
  planner::Job job;
  job.seq_len = counted_number(options.seq, "--seq", problems);
  job.global_batch = counted_number(options.global_batch, "--global-batch", problems);
  if (job.global_batch > kMaxBatch)
    problems.push_back({"--global-batch", fmt::format("at most {} samples", kMaxBatch),
                        *options.global_batch, ""});
  choose(options.mode, "--mode", planner::mode_from_name, {"train", "finetune", "inference"},
         job.mode, problems);
  choose(options.precision, "--precision", planner::precision_from_name,
         {"bf16", "fp16", "fp8", "nvfp4"}, job.precision, problems);
  choose(options.fp8_scaling, "--fp8-scaling",
         {planner::kFp8Scalings.begin(), planner::kFp8Scalings.end()}, job.fp8_scaling, problems);
  read_fp8_tensors(options, model, job, problems);
  Names optimizers;
  for (const planner::Optimizer& o : planner::optimizers()) optimizers.push_back(o.name);
  choose(options.optimizer, "--optimizer", planner::optimizer_from_name, optimizers, job.optimizer,
         problems);
  choose(options.quantization, "--quantization", {"none", "int8", "nf4", "gptq", "two_factor"},
         job.quantization, problems);
  choose(options.attention, "--attention", {"flash2", "flash1", "fused_softmax", "unfused"},
         job.attention, problems);
  read_lora(options, model, job, problems);
  const auto recipes = planner::recipe_names();
  choose(options.recipe, "--recipe", {recipes.begin(), recipes.end()}, job.recipe, problems);
  job.expert_imbalance = imbalance(options, model, problems);
  job.clip = clip_of(options, problems);
  job.loss_scale = loss_scale_of(options, problems);
  if (options.framework) job.framework = *options.framework;
  core::DType reduce{};
  choose(options.reduce_dtype, "--reduce-dtype", core::dtype_from_name,
         {"f64", "f32", "bf16", "f16"}, reduce, problems);
  if (options.reduce_dtype) job.reduce_dtype = reduce;
  return job;
}

}  // namespace cli
