#include "planner/search/short_of_memory.hpp"

#include <algorithm>
#include <limits>

#include "core/check.hpp"
#include "planner/search/host_space.hpp"
#include "planner/search/preference.hpp"
#include "planner/search/variants.hpp"

namespace planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMostForMemory = 1.05;

constexpr std::int64_t kFewGpus = 32;

// Of samples that are divided further. On many GPUs other degrees serve; and this tool's executor
// has no kernels for it.
double slack_of_samples(const Question& q, const Request& request) {
  const bool asks = request.objective != Objective::memory && q.gpus <= kFewGpus &&
                    !q.machine.executor_kernels;
  return asks ? kMostForMemory : kNever;
}

// Of hosts. Ranks share the training state: where an equal share of it is small beside a GPU's
// memory, there is little that hosts could take over.
double slack_of_hosts(const Question& q, const Request& request) {
  constexpr double kSmallShare = 1.0 / 12;
  if (request.objective == Objective::memory) return kNever;
  if (q.gpus <= kFewGpus) return kMostForMemory;
  const std::optional<Recipe> recipe = resolve_recipe(q.job.recipe, q.job.precision);
  PLANNER_CHECK(recipe.has_value(), "a question's recipe exists");
  const double state = state_bytes_per_parameter(*recipe, optimizer(q.job.optimizer)) *
                       static_cast<double>(q.parameters) / static_cast<double>(q.gpus);
  const bool is_small = state < kSmallShare * static_cast<double>(q.profile.gpu.usable.value());
  return is_small ? kNever : kMostForMemory;
}

// The fastest of the plan that is within the cap on the risk, as a choice counts its step;
// infinite: none is.
core::Seconds fastest_of(const Plan& plan) {
  core::Seconds least(kNever);
  const auto consider = [&](const Candidate& c) {
    if (!within_risk(c, plan.max_risk)) return;
    least = std::min(least, counted_step(plan.job, c.strategy, c.time.step,
                                         c.uncertainty.out_of_memory));
  };
  if (plan.chosen) consider(*plan.chosen);
  std::ranges::for_each(plan.alternatives, consider);
  return least;
}

}  // namespace

ShortOfMemory::ShortOfMemory(Explorer& explorer, const Request& request,
                             const SpaceOptions& options)
    : explorer_(explorer),
      request_(request),
      options_(options),
      of_samples_(slack_of_samples(explorer.question(), request)),
      of_hosts_(slack_of_hosts(explorer.question(), request)) {}

void ShortOfMemory::explore() {
  if (explorer_.serves_all(of_hosts_)) return;
  explored_ = true;
  const Constraints& constraints = request_.constraints;
  const Question& q = explorer_.question();
  const Job& job = q.job;
  if (options_.least_tokens > 1 && !explorer_.serves_all(of_samples_)) {
    SpaceOptions shorter = options_;
    shorter.least_tokens = 1;
    std::vector<Structure> found = structures(job, shorter, constraints);
    std::erase_if(found, [&](const Structure& s) {
      return job.seq_len / s.strategy.context >= kTokensOfRank || s.strategy.context == 1;
    });
    explorer_.explore_more(std::move(found), of_samples_);
  }
  if (!explorer_.serves_all(kNever))     // else finalists try chunks anyhow
    explorer_.explore_more(with_loss_chunks(explorer_.structures(), q, constraints), kNever);
  if (!request_.hosts || explorer_.serves_all(of_hosts_)) return;
  explorer_.explore_more(with_host_optimizer(explorer_.short_of_memory(), job, constraints),
                         of_hosts_);
  if (explorer_.serves_all(of_hosts_)) return;
  explorer_.explore_more(with_host_parameters(explorer_.structures(), job, constraints), of_hosts_);
}

bool ShortOfMemory::explore_after(Plan& plan) {
  explorer_.tell_replayed(fastest_of(plan));
  const std::size_t before = explorer_.structures().size();
  if (!explored_)
    explore();
  else if (request_.hosts)
    explorer_.explore_more(with_host_optimizer(explorer_.failed_replays(of_hosts_),
                                               explorer_.question().job, request_.constraints),
                           of_hosts_);
  if (explorer_.structures().size() == before) return false;
  plan.chosen.reset();
  plan.alternatives.clear();
  plan.pareto.clear();
  plan.robust.reset();
  return true;
}

}  // namespace planner
