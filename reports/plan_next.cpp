#include "reports/plan_next.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/code.hpp"
#include "reports/emit/emit.hpp"
#include "reports/next_steps.hpp"

namespace reports {

using planner::Plan;

// What `planner emit` writes this row of the table for; empty: for nothing.
static std::string_view emitted_for(const Plan& plan, const planner::OtherFramework& f) {
  if (!f.candidate) return {};
  Plan own = plan;
  own.job.framework = f.framework;
  own.job.recipe = f.recipe;
  const std::string_view name = emit::name_of(own);
  const bool is = !name.empty() && emit::launch_of(own, *f.candidate, name).ok();
  return is ? name : std::string_view();
}

std::string launch_text(const Plan& plan, TextStyle style) {
  const planner::OtherFramework* fastest = nullptr;
  std::string_view emitted;
  for (const planner::OtherFramework& row : plan.other_frameworks) {
    const std::string_view name = emitted_for(plan, row);
    if (name.empty()) continue;
    if (fastest != nullptr && fastest->candidate->time.step <= row.candidate->time.step) continue;
    fastest = &row;
    emitted = name;
  }
  if (fastest == nullptr) return "";
  return wrapped(fmt::format("For a launch file: --framework {0} --out {0}.json, then planner emit "
                             "{0}.json --for {1}",
                             fastest->framework, emitted),
                 2, 4, style);
}

// Where nothing fits: more machines, or a job that needs less of them.
static std::string nothing_fits_next(const Plan& plan, TextStyle style) {
  const core::Code question = core::code("--model {} --gpu {}", core::Code::shell(plan.model.name),
                                         core::Code::shell(plan.profile.gpu.id));
  std::vector<NextStep> steps{
      {core::code("planner min-gpus {}", question), "says how many it takes"}};
  const bool of_memory = std::ranges::any_of(
      plan.rejected, [](const planner::Rejection& r) { return r.limit.ends_with("memory"); });
  if (!of_memory) return "";           // the fixes are above
  const bool whole = plan.job.lora_rank == 0 && plan.job.mode != planner::Mode::inference;
  if (whole && models::is_transformer(plan.model.family))
    steps.push_back({core::code("planner {} --gpus {} --mode finetune --lora-rank 16 "
                                "--quantization nf4",
                                question, plan.gpus),
                     "plans QLoRA, which trains adapters beside weights in 4 bits"});
  return next_steps_text(steps, style);
}

std::string plan_next_text(const Plan& plan, const PlanTextOptions& options) {
  if (!plan.chosen) return nothing_fits_next(plan, options.style);
  const core::Code file = options.file.empty() ? "plan.json" : core::Code::shell(options.file);
  const std::string_view emitted = emit::name_of(plan);
  std::vector<NextStep> steps;
  if (options.file.empty()) steps.push_back({"--out plan.json", "keeps this plan"});
  if (plan.job.framework == "native")
    steps.push_back(
        {core::code("planner exec {} --scale-down", file), "runs a small job of it here"});
  else if (!emitted.empty() && emit::launch_of(plan, *plan.chosen, emitted).ok())
    steps.push_back({core::code("planner emit {} --for {}", file, core::Code::own(emitted)),
                     "starts it there"});
  else
    steps.push_back({core::code("planner simulate {}", file), "plays a step in time"});
  steps.push_back({core::code("planner report {} --out plan.html", file), "draws it"});
  if (!options.full) steps.push_back({"--full", "prints all, with rejected strategies"});
  return next_steps_text(steps, options.style);
}

}  // namespace reports
