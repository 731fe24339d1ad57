#include "planner/strategy/job_check.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/question/quantization.hpp"

namespace planner {
namespace {

std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

std::string known_recipes() {
  std::string text = "one of";
  for (std::string_view name : recipe_names()) text += fmt::format(" {}", name);
  return text;
}

// Weights that are gathered as 8-bit codes. Products read the codes by rows and by columns, so both
// must share their scales: those of rows and of 32 neighbours do not. Megatron-LM casts to mxfp8
// behind a gather in 16 bits (NVIDIA/Megatron-LM d98e8a6, core/distributed/
// param_and_grad_buffer.py). Where no master copy is updated, the scale must be known before each
// gather: torchao has that with one of a tensor alone (pytorch/ao 36027d8, torchao/float8/
// config.py).
void add_f8_weights(const Job& job, const Recipe& recipe, const hw_profiles::Framework& framework,
                    core::Problems& problems) {
  if (!job.in_few_bits("params")) return;
  const auto need = [&](bool holds, std::string expected, std::string found, std::string fix) {
    if (!holds)
      problems.push_back({"--fp8-tensors", std::move(expected), std::move(found), std::move(fix)});
  };
  constexpr const char* kLeave = "leave params out of --fp8-tensors";
  need(framework.f8_weight_orders.has_value(), "a framework that gathers weights in 8 bits",
       fmt::format("params with framework {}", framework.id),
       fmt::format("{}, or choose --framework megatron_core, fsdp2 or native", kLeave));
  need(job.mode != Mode::inference && job.lora_rank == 0, "params where all weights train",
       job.mode == Mode::inference ? "params with inference" : "params with --lora-rank",
       fmt::format("{}: weights that do not change are not gathered after updates", kLeave));
  const bool both_ways = job.fp8_scaling != "rowwise" && job.fp8_scaling != "mxfp8";
  need(both_ways, "params with --fp8-scaling tensorwise, delayed or blockwise",
       fmt::format("params with {}", job.fp8_scaling),
       fmt::format("{}: with {} products read other codes by columns, cast from 16 bits", kLeave,
                   job.fp8_scaling));
  need(!both_ways || recipe.has_master || job.fp8_scaling == "tensorwise",
       fmt::format("params with --fp8-scaling tensorwise in recipe {}", job.recipe),
       fmt::format("params with {}", job.fp8_scaling),
       "choose --fp8-scaling tensorwise, or a recipe with a master copy");
}

}  // namespace

core::DType usual_precision(const hw_profiles::Profile& profile) {
  const bool has_bf16 = hw_profiles::peak(profile.gpu, core::DType::bf16).has_value();
  return has_bf16 ? core::DType::bf16 : core::DType::f16;
}

std::string_view usual_attention(const hw_profiles::Profile& profile) {
  if (profile.gpu.attention_flash2) return "flash2";
  const bool keeps_none =
      profile.gpu.attention_flash1 && profile.framework.memory_efficient_attention;
  return keeps_none ? "flash1" : "fused_softmax";
}

std::vector<std::string> take_usual(Job& job, const hw_profiles::Profile& profile, bool precision,
                                    bool attention) {
  const std::string& gpu = profile.gpu.id;
  std::vector<std::string> said;
  const bool takes = precision && recipe_accepts(job.recipe, core::DType::f16) &&
                     resolve_recipe(job.recipe)->compute == core::DType::bf16;
  if (takes && usual_precision(profile) != job.precision) {
    job.precision = usual_precision(profile);
    said.push_back(
        fmt::format("precision fp16: {} has no bf16", gpu));
  }
  if (attention && usual_attention(profile) != job.attention) {
    job.attention = usual_attention(profile);
    said.push_back(fmt::format(
        "attention {}: FlashAttention-2 has no kernels for {}{}", job.attention, gpu,
        job.attention == "flash1" ? "; as fast as its memory-efficient kernel, which keeps no "
                                    "scores either" : ""));
  }
  return said;
}

core::Problems job_problems(const Job& job, const hw_profiles::Profile& profile) {
  core::Problems problems;
  const auto need = [&](bool holds, std::string where, std::string expected, std::string found,
                        std::string fix) {
    if (!holds)
      problems.push_back({std::move(where), std::move(expected), std::move(found), std::move(fix)});
  };
  const auto recipe = resolve_recipe(job.recipe, job.precision);
  need(recipe.has_value(), "--recipe", known_recipes(), quoted(job.recipe), "");
  if (!recipe) return problems;
  need(recipe_accepts(job.recipe, job.precision), "--precision",
       job.recipe == "mixed" ? "bf16 or fp16" : fmt::format("bf16 with recipe {}", job.recipe),
       std::string(precision_name(job.precision)), "choose --recipe mixed for fp16");
  const std::string usual(precision_name(usual_precision(profile)));
  const std::string computed = fmt::format("a type that {} computes", profile.gpu.id);
  const bool computes = hw_profiles::peak(profile.gpu, recipe->compute).has_value();
  need(computes || recipe->compute != core::DType::bf16, "--precision", computed,
       fmt::format("bf16, of recipe {}", job.recipe),
       recipe_accepts(job.recipe, core::DType::f16)
           ? "choose --precision fp16"
           : "choose --recipe mixed --precision fp16, or --recipe fp32");
  need(computes || recipe->compute == core::DType::bf16, "--recipe", computed,
       std::string(core::name(recipe->compute)), "choose another recipe or GPU");
  const auto attention = attention_kinds();
  need(std::ranges::count(attention, job.attention) == 1, "--attention",
       fmt::format("one of {}", fmt::join(attention, ", ")), quoted(job.attention), "");
  need(job.attention != "flash2" || profile.gpu.attention_flash2.has_value(), "--attention",
       fmt::format("a kernel that there is for {}", profile.gpu.id), "flash2",
       fmt::format("choose --attention {}", usual_attention(profile)));
  need(!is_narrow(job.precision) || hw_profiles::peak(profile.gpu, job.precision).has_value(),
       "--precision", computed, std::string(precision_name(job.precision)),
       fmt::format("choose {} or another GPU", usual));
  need(job.precision != core::DType::f4 || profile.framework.nvfp4_products.value_or(false),
       "--precision", "a framework that multiplies in 4 bits",
       fmt::format("nvfp4 with framework {}", profile.framework.id),
       "add --framework megatron_core, or choose --precision fp8");
  add_f8_weights(job, *recipe, profile.framework, problems);
  need(quantization_from_name(job.quantization).has_value(), "--quantization",
       "none, int8, nf4, gptq or two_factor", quoted(job.quantization), "");
  need(job.quantization == "none" || job.lora_rank > 0 || job.mode == Mode::inference,
       "--quantization", "none where all weights train", quoted(job.quantization),
       "add --lora-rank 16: codes are for weights that do not change");
  need(job.clip == 0 || job.mode != Mode::inference, "--clip", "a job that trains", "inference",
       "leave it out: there are no gradients");
  need(job.loss_scale <= 1 || scales_loss(job),  // dynamic and none are for any job
       "--loss-scale", "a job that trains with --precision fp16",
       job.mode == Mode::inference ? "inference" : std::string(precision_name(job.precision)),
       "leave it out: nothing else scales its loss");
  need(job.global_batch >= 1, "--global-batch", "at least 1 sample",
       fmt::format("{}", job.global_batch), "");
  return problems;
}

constexpr std::string_view kStepOfADay = "a step of at most a day at the GPUs' peak";

bool is_too_long_a_step(const core::Problems& problems) {
  return problems.size() == 1 && problems.front().expected == kStepOfADay;
}

core::Problems step_length_problems(const Job& job, std::int64_t parameters, std::int64_t gpus,
                                    const hw_profiles::Profile& profile) {
  constexpr double kDay = 86'400;
  // [megatron2021]: 6 FLOPs per parameter and token, forward and backward.
  const double flops = 6 * static_cast<double>(parameters) *
                       static_cast<double>(job.global_batch) * static_cast<double>(job.seq_len);
  const double seconds =
      flops / (profile.gpu.peak_16bit.value() * static_cast<double>(gpus));
  if (seconds <= kDay) return {};
  return {{"global_batch", std::string(kStepOfADay),
           fmt::format("{} samples of {} tokens, {:.3g} days", job.global_batch, job.seq_len,
                       seconds / kDay),
           "take a smaller --global-batch or more GPUs"}};
}

}  // namespace planner
