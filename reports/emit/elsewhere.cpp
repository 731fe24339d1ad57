#include "reports/emit/elsewhere.hpp"

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "hw_profiles/load.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/job_check.hpp"
#include "reports/emit/emit.hpp"
#include "reports/text.hpp"

namespace reports::emit {
namespace {

using planner::Candidate;
using planner::Plan;

// The plan's machine and job as they are with this framework. What the plan's own framework sets
// where nobody says otherwise, the other one sets anew.
core::Status set_framework(const Plan& plan, std::string_view framework,
                           hw_profiles::Profile& profile, planner::Job& job) {
  const core::Status done = hw_profiles::use_framework(profile, std::string(framework), "emit");
  if (!done.ok()) return done;
  job.framework = framework;
  if (job.recipe == plan.profile.framework.recipe) job.recipe = profile.framework.recipe;
  if (job.attention == planner::usual_attention(plan.profile))
    job.attention = planner::usual_attention(profile);
  if (!profile.framework.trains_mtp) job.mtp_layers = 0;
  return done;
}

// Empty: the planner does not know how that framework would run it.
std::optional<Candidate> evaluated(const Plan& plan, const planner::Strategy& strategy,
                                   std::string_view framework) {
  hw_profiles::Profile profile = plan.profile;
  planner::Job job = plan.job;
  if (!set_framework(plan, framework, profile, job).ok()) return std::nullopt;
  const auto question = planner::make_question(plan.model, job, profile, plan.gpus);
  if (!question.ok() || !planner::job_problems(job, profile).empty()) return std::nullopt;
  const auto lowered =
      planner::lower_strategy(plan.model, job, profile.framework, plan.gpus, strategy);
  if (!lowered.ok()) return std::nullopt;
  return planner::evaluate(*question, lowered->program, lowered->strategy);
}

}  // namespace

std::optional<std::string> predicted_elsewhere(const Plan& plan, const Candidate& candidate,
                                               std::string_view framework) {
  const std::string_view own = plan.job.framework, other = modelled_as(framework);
  const bool by_deepspeed = own.starts_with("deepspeed") && other == "trainer";  // it calls it
  if (own == other || modelled_as(name_of(plan)) == other || by_deepspeed) return std::nullopt;
  const std::string begin = fmt::format("this plan was made for --framework {}", own);
  const std::string end = fmt::format("planner --framework {} plans for it", other);
  const std::optional<Candidate> there = evaluated(plan, candidate.strategy, other);
  if (!there)
    return fmt::format("{}, and what it takes in {} cannot be predicted: {}", begin, other, end);
  const core::Bytes device = there->memory.worst.device, usable = there->memory.usable;
  if (device > usable)
    return fmt::format("{}, and in {} it needs {} of the {} that a GPU has, so it will probably "
                       "run out of memory: {}",
                       begin, other, to_text(device), to_text(usable), end);
  return fmt::format("{}, where a step takes {} and a GPU needs {}; in {} a step is predicted to "
                     "take {} and a GPU to need {} (out of memory: {}): {}",
                     begin, to_text(candidate.time.step), to_text(candidate.memory.worst.device),
                     other, to_text(there->time.step), to_text(device),
                     percent_text(there->uncertainty.out_of_memory), end);
}

}  // namespace reports::emit
