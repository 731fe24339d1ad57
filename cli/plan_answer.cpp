// Answers a question of the command line: the plan for its machine, and what other machines and
// other frameworks make of the same job.
#include <array>

#include <fmt/format.h>

#include "cli/plan_options.hpp"
#include "cli/price_option.hpp"
#include "core/parallel.hpp"
#include "planner/search/released.hpp"
#include "reports/emit/emit.hpp"

namespace cli {

// Frameworks that `planner emit` writes for, as people choose between them.
static constexpr std::array<std::string_view, 3> kOtherFrameworks{"fsdp2", "megatron_core",
                                                                  "deepspeed"};

static planner::OtherFramework in_framework(const PlanOptions& options, std::string_view name) {
  planner::OtherFramework other;
  other.framework = name;
  PlanOptions changed = options;
  changed.framework = name;
  auto requests = requests_of(changed);
  if (!requests.ok()) return other;    // it cannot be asked for this
  planner::Request& request = requests->front();
  request.top = 0;
  request.threads = 1;
  request.brief = true;
  request.robust.reset();
  request.chain.reset();
  request.fewer = false;
  request.gpu_given = true;            // no other machine is asked about
  core::Result<planner::Plan> plan = planner::make_plan(request);
  if (!plan.ok()) return other;
  other.recipe = plan->job.recipe;
  other.candidate = std::move(plan->chosen);
  return other;
}

// A plan that emit would refuse for its framework says so at once: it is a prediction alone.
static void tell_what_emit_lacks(planner::Plan& plan) {
  const std::string_view name = reports::emit::name_of(plan);
  if (name.empty() || !plan.chosen) return;
  const auto launch = reports::emit::launch_of(plan, *plan.chosen, name);
  if (launch.ok()) return;
  const core::Problem& first = launch.problems().front();
  // The first, since a page shows few.
  plan.assumptions.insert(
      plan.assumptions.begin(),
      fmt::format("no launch file can be written of this plan: planner emit --for {} expects {}, "
                  "and finds {}",
                  name, first.expected, first.found));
}

core::Result<planner::Plan> plan_of(const PlanOptions& options,
                                    const std::vector<planner::Request>& requests) {
  const planner::Request& first = requests.front();
  if (requests.size() > 1 && first.objective == planner::Objective::cost)
    return cheapest_plan(requests);
  const bool asks_others = !options.framework && models::is_transformer(first.model.family) &&
                           first.job.mode != planner::Mode::inference;
  std::vector<planner::OtherFramework> others(asks_others ? kOtherFrameworks.size() : 0);
  std::optional<core::Result<planner::Plan>> made;
  planner::Request own = first;
  own.busy_threads = static_cast<int>(others.size());
  core::for_each_index(1 + others.size(), 0, [&](std::size_t i) {
    if (i == 0) made = planner::make_plan(own);
    else others[i - 1] = in_framework(options, kOtherFrameworks[i - 1]);
  });
  core::Result<planner::Plan> plan = *std::move(made);
  if (!plan.ok()) return plan;
  for (std::size_t i = 1; i < requests.size(); ++i) {
    planner::Request other = requests[i];
    other.brief = true;                // its choice alone is shown
    other.robust.reset();
    other.chain.reset();
    const core::Result<planner::Plan> there = planner::make_plan(other);
    if (!there.ok()) return there.problems();
    plan->other_machines.push_back(planner::other_machine(there->profile, there->chosen));
  }
  plan->other_frameworks = std::move(others);
  plan->released = planner::released_by(first, *plan);
  tell_what_emit_lacks(*plan);
  return plan;
}

}  // namespace cli
