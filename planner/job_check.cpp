#include "planner/job_check.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/quantization.hpp"

namespace planner {
namespace {

std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

std::string known_recipes() {
  std::string text = "one of";
  for (std::string_view name : recipe_names()) text += fmt::format(" {}", name);
  return text;
}

}  // namespace

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
  const bool computes = hw_profiles::peak(profile.gpu, recipe->compute).has_value();
  need(computes, "--recipe", fmt::format("a type that {} computes", profile.gpu.id),
       std::string(core::name(recipe->compute)), "choose another recipe or GPU");
  const auto attention = attention_kinds();
  need(std::ranges::count(attention, job.attention) == 1, "--attention",
       fmt::format("one of {}", fmt::join(attention, ", ")), quoted(job.attention), "");
  need(job.precision != core::DType::f8 || profile.gpu.peak_f8.has_value(), "--precision",
       fmt::format("a type that {} computes", profile.gpu.id), "fp8", "choose another GPU or bf16");
  need(quantization_from_name(job.quantization).has_value(), "--quantization",
       "none, int8, nf4 or two_factor", quoted(job.quantization), "");
  need(job.quantization == "none" || job.lora_rank > 0 || job.mode == Mode::inference,
       "--quantization", "none where all weights train", quoted(job.quantization),
       "add --lora-rank 16: codes are for weights that do not change");
  need(job.global_batch >= 1, "--global-batch", "at least 1 sample",
       fmt::format("{}", job.global_batch), "");
  return problems;
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
  return {{"global_batch", "a step of at most a day at the GPUs' peak",
           fmt::format("{} samples of {} tokens, {:.3g} days", job.global_batch, job.seq_len,
                       seconds / kDay),
           "take a smaller --global-batch or more GPUs"}};
}

}  // namespace planner
