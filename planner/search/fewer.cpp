#include "planner/search/fewer.hpp"

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "hw_profiles/mixed.hpp"

namespace planner {

// The same job on fewer GPUs, for a figure to compare with.
static Request on_fewer(const Request& request, const Plan& plan) {
  Request fewer = request;
  fewer.fewer = fewer.hosts = fewer.exact = false;
  fewer.brief = true;
  fewer.gpu_given = true;              // no other machine is asked about
  fewer.top = 0;
  fewer.candidate = 1;
  fewer.tokens.reset();
  fewer.robust.reset();
  fewer.chain.reset();
  fewer.progress = {};
  fewer.job = plan.job;                // the same samples a step
  return fewer;
}

// What GPUs of other kinds add to those of one kind: if nothing, it is said.
static void state_kinds_alone(const Request& request, Plan& plan) {
  Request alone = on_fewer(request, plan);
  for (std::size_t k = 0; k < hw_profiles::kinds(request.profile); ++k) {
    alone.profile = hw_profiles::profile_of_kind(request.profile, k);
    alone.profile.others.clear();
    alone.gpus = hw_profiles::gpus_of_kind(request.profile, k, plan.gpus);
    const core::Result<Plan> other = make_plan(alone);
    if (!other.ok() || !other->chosen) continue;
    const core::Seconds step = other->chosen->time.step;
    const bool faster = step < plan.chosen->time.step;
    plan.assumptions.push_back(fmt::format(
        "{} {} alone take {} a step{} ({})", alone.gpus, alone.profile.gpu.id,
        core::to_text(step), faster ? kFasterAlone : "",
        to_text(other->chosen->strategy)));
  }
}

void state_fewer_gpus(const Request& request, Plan& plan) {
  // What any step makes of the peak; how much of the time of kernels fuller ones may save.
  constexpr double kMostUse = 0.75, kFuller = 0.8;
  if (!request.fewer || !plan.chosen || request.objective != Objective::time) return;
  if (!plan.profile.others.empty()) return state_kinds_alone(request, plan);
  Request smaller = on_fewer(request, plan);
  double least = plan.chosen->time.step.value();
  std::string said;
  for (std::int64_t ways = 2; ways <= plan.gpus; ways *= 2) {
    if (static_cast<double>(ways) * plan.chosen->throughput.mfu >= kMostUse) break;
    if (static_cast<double>(ways) * kFuller * plan.chosen->time.compute >= plan.chosen->time.step)
      break;
    if (plan.gpus % ways != 0) break;
    smaller.gpus = plan.gpus / ways;
    const core::Result<Plan> other = make_plan(smaller);
    if (!other.ok() || !other->chosen || other->chosen->time.step.value() >= least) continue;
    least = other->chosen->time.step.value();
    said = fmt::format("{}: {} take {} a step ({})", kFewerFaster, smaller.gpus,
                       core::to_text(other->chosen->time.step),
                       to_text(other->chosen->strategy));
  }
  if (!said.empty()) plan.assumptions.push_back(std::move(said));
}

}  // namespace planner
