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

// How much slower than others a safe plan may be before samples are divided further. On many GPUs
// other degrees serve, and no GPU has run the kernels that this tool's executor has for divided
// samples.
double slack_of_samples(const Question& q, const Request& request) {
  const bool asks = request.objective != Objective::memory && q.gpus <= kFewGpus &&
                    !q.machine.executor_kernels;
  return asks ? kMostForMemory : kNever;
}

// How much slower than others a safe plan may be before hosts keep a part of the training state.
// The ranks divide this state. Where a rank's share is much smaller than a GPU's memory, moving it
// to the host would free little.
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

bool ShortOfMemory::explore_after(std::span<const Candidate> finalists) {
  const Job& job = explorer_.question().job;
  core::Seconds fastest(kNever);         // of those within the cap, as a choice counts its step
  for (const Candidate& c : finalists)
    if (within_risk(c, request_.max_risk))
      fastest = std::min(fastest, counted_step(job, c.strategy, c.time.step,
                                               c.uncertainty.out_of_memory));
  explorer_.tell_replayed(fastest);
  const std::size_t before = explorer_.structures().size();
  if (!explored_)
    explore();
  else if (request_.hosts)
    explorer_.explore_more(with_host_optimizer(explorer_.failed_replays(of_hosts_), job,
                                               request_.constraints),
                           of_hosts_);
  return explorer_.structures().size() > before;
}

}  // namespace planner
