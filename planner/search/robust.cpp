#include "planner/search/robust.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"

namespace planner {
namespace {

// Scenarios that are played where nobody says how many: fewer of steps with many operations, which
// take seconds each.
constexpr std::int64_t kScenarios = 200, kFewestScenarios = 20;
constexpr double kWorthPlaying = 2e8;

}  // namespace

std::vector<RobustStep> robust_steps(Explorer& explorer, const Request& request,
                                     const std::vector<Candidate>& candidates) {
  PLANNER_CHECK(request.robust.has_value());
  const Question& q = explorer.question();
  VariationOptions o;
  o.random = request.robust->random;
  o.seed = request.robust->seed;
  o.threads = request.threads;
  std::vector<program::Program> programs;
  double operations = 1;               // of a scenario, of the candidate that has most
  for (const Candidate& c : candidates) {
    const auto graph = models::build_graph(
        q.model, graph_options(q.job, c.strategy, q.profile.framework));
    PLANNER_CHECK(graph.ok(), "a candidate without a graph");
    programs.push_back(lower(*graph, q.job, c.strategy, policy_of(q)));
    operations = std::max(operations, operations_of(programs.back(), q.machine, o));
  }
  o.steps = request.robust->scenarios.value_or(std::clamp(
      static_cast<std::int64_t>(kWorthPlaying / operations), kFewestScenarios, kScenarios));
  std::vector<RobustStep> steps;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (request.progress)
      o.progress = [&](std::string_view text) {
        request.progress(fmt::format("candidate {} of {}: {}", c + 1, candidates.size(), text));
      };
    const program::Program& program = programs[c];
    const core::Seconds predicted = candidates[c].time.step;
    const core::Seconds healthy = step_with(program, q.machine, {});
    const Variation varied = varied_steps(program, q.machine, o);
    RobustStep step;
    step.scenarios = o.steps;
    step.slowed = varied.slowed;
    step.step = predicted * (quantile(varied.steps, request.robust->quantile) / healthy);
    step.mean = predicted * (varied.mean / healthy);
    for (const RandomSlow& kind : o.random) {
      const core::Seconds worst = worst_step_with_one(program, q.machine, kind.slowdown,
                                                      kind.link_share, request.threads);
      step.one_slow.push_back({kind.slowdown, kind.link_share, worst / healthy - 1});
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

Because order_by_robust_step(std::vector<Candidate>& candidates, std::vector<RobustStep>& steps,
                             const Job& job, const Request& request) {
  std::vector<Candidate> counted = candidates;
  for (std::size_t c = 0; c < counted.size(); ++c) counted[c].time.step = steps[c].step;
  const Because because = order_by_preference(counted, job, request);
  std::vector<Candidate> ordered;
  std::vector<RobustStep> ordered_steps;
  for (const Candidate& c : counted) {
    const auto at = std::ranges::find(candidates, c.strategy, &Candidate::strategy);
    PLANNER_CHECK(at != candidates.end());
    ordered_steps.push_back(steps[static_cast<std::size_t>(at - candidates.begin())]);
    ordered.push_back(*at);
  }
  candidates = std::move(ordered);
  steps = std::move(ordered_steps);
  return because;
}

}  // namespace planner
