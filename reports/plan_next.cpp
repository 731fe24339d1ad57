#include "reports/plan_next.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/untrusted.hpp"
#include "reports/emit/emit.hpp"
#include "reports/next_steps.hpp"

namespace reports {

using planner::Plan;

// Whether `planner emit` writes this row of the table.
static bool is_emitted(const Plan& plan, const planner::OtherFramework& f) {
  const std::string_view name = emit::name_of(f.framework);
  if (!f.candidate || name.empty()) return false;
  Plan own = plan;
  own.job.framework = f.framework;
  own.job.recipe = f.recipe;
  return emit::launch_of(own, *f.candidate, name).ok();
}

std::string launch_text(const Plan& plan, TextStyle style) {
  const auto row = std::ranges::find_if(
      plan.other_frameworks, [&](const auto& f) { return is_emitted(plan, f); });
  if (row == plan.other_frameworks.end()) return "";
  return wrapped(fmt::format("For a launch file: --framework {0} --out {0}.json, then planner emit "
                             "{0}.json --for {1}",
                             row->framework, emit::name_of(row->framework)),
                 2, 4, style);
}

// Where nothing fits: more machines, or a job that needs less of them.
static std::string nothing_fits_next(const Plan& plan, TextStyle style) {
  const std::string question = fmt::format("--model {} --gpu {}", core::shell_word(plan.model.name),
                                           core::shell_word(plan.profile.gpu.id));
  std::vector<NextStep> steps{
      {fmt::format("planner min-gpus {}", question), "says how many it takes"}};
  const bool whole = plan.job.lora_rank == 0 && plan.job.mode != planner::Mode::inference;
  if (whole && models::is_transformer(plan.model.family))
    steps.push_back({fmt::format("planner {} --gpus {} --mode finetune --lora-rank 16 "
                                 "--quantization nf4",
                                 question, plan.gpus),
                     "plans QLoRA, which trains adapters beside weights in 4 bits"});
  return next_steps_text(steps, style);
}

std::string plan_next_text(const Plan& plan, const PlanTextOptions& options) {
  if (!plan.chosen) return nothing_fits_next(plan, options.style);
  const std::string file = options.file.empty() ? "plan.json" : core::shell_word(options.file);
  const std::string_view emitted = emit::name_of(plan.job.framework);
  std::vector<NextStep> steps;
  if (options.file.empty()) steps.push_back({"--out plan.json", "keeps this plan"});
  if (plan.job.framework == "native")
    steps.push_back({fmt::format("planner exec {} --scale-down", file),
                     "runs a small job of it here"});
  else if (!emitted.empty() && emit::launch_of(plan, *plan.chosen, emitted).ok())
    steps.push_back({fmt::format("planner emit {} --for {}", file, emitted), "starts it there"});
  else
    steps.push_back({fmt::format("planner simulate {}", file), "plays a step in time"});
  steps.push_back({fmt::format("planner report {} --out plan.html", file), "draws it"});
  if (!options.full) steps.push_back({"--full", "prints all, with rejected strategies"});
  return next_steps_text(steps, options.style);
}

}  // namespace reports
