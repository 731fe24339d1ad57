#include "reports/html/curves.hpp"

#include <algorithm>

#include "core/call.hpp"
#include "core/repeats.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"

namespace reports::html {
namespace {

using planner::Plan;
using planner::Strategy;

constexpr std::int64_t kEveryLayer = 12;  // up to here each K, beyond it a third more each time
constexpr std::size_t kMostPoints = 24;

core::Result<std::optional<CheckpointPoint>> point(const planner::Question& question,
                                                   Strategy s, std::int64_t every) {
  s.checkpoint = every == 0 ? planner::Checkpoint::none : planner::Checkpoint::every_k;
  s.checkpoint_every = every;
  const Strategy strategy = planner::resolve(question.model, question.job, s);
  if (!planner::strategy_problems(question.model, question.job, strategy, question.gpus).empty())
    return std::optional<CheckpointPoint>();
  const auto graph = models::build_graph(
      question.model,
      planner::graph_options(question.job, strategy, question.profile.framework));
  if (!graph.ok()) return graph.problems();
  const planner::Candidate c = planner::evaluate(question, *graph, strategy);
  const auto activations = static_cast<std::size_t>(program::Term::activations);
  return std::optional(CheckpointPoint{every, c.memory.worst.peaks[activations],
                                       c.memory.worst.live, c.memory.worst.device, c.time.step});
}

}  // namespace

core::Result<CheckpointCurve> checkpoint_curve(const Plan& plan) {
  CheckpointCurve curve;
  if (!plan.chosen || plan.job.mode == planner::Mode::inference) return curve;
  const auto question =
      planner::make_question(plan.model, plan.job, plan.profile, plan.gpus);
  if (!question.ok()) return question.problems();
  Strategy& varied = curve.strategy = plan.chosen->strategy;
  const auto first = point(*question, varied, 1);
  if (!first.ok()) return first.problems();
  if (!*first && varied.pipeline > 1) varied.schedule = planner::Schedule::one_f_one_b;
  const std::int64_t layers =
      varied.stages.empty() ? plan.model.layers : std::ranges::max(varied.stages);
  std::vector<std::int64_t> wanted{0};
  for (std::int64_t k = 1; k <= layers && wanted.size() < kMostPoints;
       k = k < kEveryLayer ? k + 1 : k + k / 3)
    wanted.push_back(k);
  if (wanted.back() != layers) wanted.push_back(layers);
  for (const std::int64_t every : wanted) {
    core::stop_point();
    const auto one = point(*question, varied, every);
    if (!one.ok()) return one.problems();
    if (*one) curve.points.push_back(**one);
  }
  return curve;
}

core::Result<std::vector<planner::ScalePoint>> scaling_curve(const Plan& plan) {
  if (!plan.chosen) return std::vector<planner::ScalePoint>();
  const std::int64_t own = plan.chosen->strategy.data;
  std::vector<std::int64_t> copies{own};
  for (std::int64_t n = 1; n <= std::max<std::int64_t>(2 * own, 8); n *= 2) copies.push_back(n);
  core::sort_unique(copies);
  return planner::scaling(plan, plan.chosen->strategy, copies);
}

}  // namespace reports::html
