#include "planner/plan/scaling.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/call.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/swept_time.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/engine/sweep.hpp"

namespace planner {
namespace {

constexpr double kMostScaled = 1e8;

core::Result<ScalePoint> point(const Plan& plan, Strategy s, std::int64_t copies) {
  const std::string where = fmt::format("--scale {}", copies);
  if (!plan.profile.others.empty() || !s.shares.empty())
    return core::Problem{where, "a plan whose data ranks are alike", "several kinds of them",
                         "plan for GPUs of one kind, without a pin of shares"};
  const bool whole = s.shard_group == s.data;
  s.data = copies;
  if (whole || copies % s.shard_group != 0) s.shard_group = copies;
  s.servers = std::min(s.servers, copies);
  // As far as so few can divide them.
  const std::int64_t over = s.expert_over_tensor() ? s.tensor : 1;
  s.expert = std::gcd(s.expert / over, s.data_ranks()) * over;
  Job job = plan.job;
  job.global_batch = s.micro_batch * s.grad_accum * copies;
  ScalePoint p;
  p.copies = copies;
  p.gpus = s.data * s.tensor * s.pipeline * s.context + s.separate_servers();
  const auto lowered = lower_strategy(plan.model, job, plan.profile.framework, p.gpus, s);
  if (!lowered.ok()) {
    core::Problems problems = lowered.problems();
    for (core::Problem& problem : problems) problem.where = where + ": " + problem.where;
    return problems;
  }
  const program::Program& program = lowered->program;
  const cost::Machine machine = machine_for(plan.profile, job, plan.model);
  const engine::Scene scene(program, machine);
  if (scene.operations() > kMostScaled)
    return core::Problem{where, fmt::format("a step of at most {:.0e} operations", kMostScaled),
                         fmt::format("{:.3g}", scene.operations()), "scale to fewer copies"};
  p.time = time_of(engine::critical_terms(engine::sweep(scene)), machine);
  p.samples_per_second = static_cast<double>(job.global_batch) / p.time.step.value();
  return p;
}

}  // namespace

core::Result<std::vector<ScalePoint>> scaling(const Plan& plan, const Strategy& strategy,
                                              const std::vector<std::int64_t>& copies) {
  const core::Result<ScalePoint> one = point(plan, strategy, 1);
  if (!one.ok()) return one.problems();
  std::vector<ScalePoint> points;
  for (const std::int64_t n : copies) {
    core::stop_point();
    core::Result<ScalePoint> p = n == 1 ? one : point(plan, strategy, n);
    if (!p.ok()) return p.problems();
    p->speed_up = p->samples_per_second / one->samples_per_second;
    p->efficiency = p->speed_up / static_cast<double>(n);
    points.push_back(*p);
  }
  return points;
}

}  // namespace planner
