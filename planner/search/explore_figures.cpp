// Of a worker what it evaluates: figures of a strategy.
#include <algorithm>
#include <span>

#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/communicators.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/lowering/rescale.hpp"
#include "planner/search/explore_worker.hpp"
#include "planner/search/uneven.hpp"
#include "sim/program/bound.hpp"
#include "sim/program/replay.hpp"

namespace planner {

static core::Bytes device_bound(const Question& q, const program::Program& program,
                         const std::vector<core::Bytes>& live) {
  core::Bytes most{};
  for (std::size_t k = 0; k < live.size(); ++k)
    most = std::max(most, live[k] + overhead_bytes(program, program.classes[k], q.profile));
  return most;
}

// Of GPUs of several kinds: of a device as large as the first kind's.
static core::Bytes mixed_bound(const Question& q, const program::Program& program) {
  const Memory memory = memory_of(program, q.profile, false);
  return core::Bytes(static_cast<std::int64_t>(
      static_cast<double>(memory.worst.device.value()) *
      (static_cast<double>(q.profile.gpu.usable.value()) /
       static_cast<double>(memory.usable.value()))));
}

const std::vector<closed_form::Figures>& ExploreWorker::lowered(const Strategy& resolved) {
  const Question& first = questions_.front();
  if (!program_ || !rescale(*program_, resolved))
    program_ = lower(graph(resolved), first.job, resolved, policy_of(first));
  std::vector<core::Bytes> live;
  for (const program::RankClass& k : program_->classes)
    live.push_back(program::closed_form_live(k));
  std::vector<const cost::Machine*> machines;
  for (const Question& q : questions_) machines.push_back(&q.machine);
  const std::vector<Time> times = step_times(*program_, machines, resolved.schedule);
  figures_.resize(questions_.size());
  for (std::size_t i = 0; i < times.size(); ++i)
    figures_[i] = {questions_[i].machine.mixed ? mixed_bound(questions_[i], *program_)
                                               : device_bound(questions_[i], *program_, live),
                   times[i].step};
  return figures_;
}

// Data ranks that take different numbers of micro-batches: the slowest sets the step, the fullest
// the bound.
const std::vector<closed_form::Figures>& ExploreWorker::figures_of(const Strategy& s, bool closed) {
  if (!closed) return lowered(s);
  const Question& q = questions_.front();
  const std::vector<std::int64_t> kinds =
      q.machine.mixed ? data_ranks_of_kinds(q, s) : std::vector<std::int64_t>{s.data};
  if (s.shares.empty() || kinds.empty()) return evaluator_.at(s.micro_batch, s.grad_accum);
  figures_.assign(questions_.size(), {});
  std::size_t rank = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto ranks = static_cast<std::size_t>(kinds[k]);
    const std::int64_t most = std::ranges::max(std::span(s.shares).subspan(rank, ranks));
    rank += ranks;
    const std::vector<closed_form::Figures>& all = evaluator_.at(s.micro_batch, most);
    for (std::size_t i = 0; i < figures_.size(); ++i) {
      const closed_form::Figures& one = q.machine.mixed ? evaluator_.of_kind(k) : all[i];
      figures_[i] = {std::max(figures_[i].device, one.device),
                     std::max(figures_[i].step, one.step)};
    }
  }
  return figures_;
}

// The shares that end the step soonest, where it has micro-batches enough. REQUIRES: the structure
// is prepared in closed form.
bool ExploreWorker::share(Strategy& s) {
  const Question& q = questions_.front();
  const std::vector<std::int64_t> ranks = data_ranks_of_kinds(q, s);
  const std::int64_t few = s.grad_accum, more = 2 * few;
  std::vector<Pace> paces;
  evaluator_.at(s.micro_batch, few);
  for (std::size_t k = 0; k < ranks.size(); ++k)
    paces.push_back({ranks[k], evaluator_.of_kind(k).step, {}});
  evaluator_.at(s.micro_batch, more);
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    Pace& pace = paces[k];
    pace.each = (evaluator_.of_kind(k).step - pace.fixed) / static_cast<double>(more - few);
    if (pace.each.value() <= 0) return false;
    pace.fixed = pace.fixed - pace.each * static_cast<double>(few);
  }
  const std::vector<std::int64_t> shares = best_shares(paces, s.grad_accum * s.data);
  const bool differ = !shares.empty() && std::ranges::max(shares) > std::ranges::min(shares);
  if (!differ) return false;           // equal shares are another structure
  for (std::size_t k = 0; k < ranks.size(); ++k)
    s.shares.insert(s.shares.end(), static_cast<std::size_t>(ranks[k]), shares[k]);
  s.grad_accum = std::ranges::max(s.shares);
  if (!strategy_problems(q.model, q.job, s, q.gpus, true).empty() ||
      constraints_->forbids(s) == "shares") {
    s.shares.clear();
    return false;
  }
  found_.shares.add(index_, s.micro_batch, s.shares);
  return true;
}

core::Bytes ExploreWorker::host_bytes(const Strategy& resolved, bool closed) const {
  if (resolved.offload.empty()) return {};
  if (closed) return evaluator_.host_bytes();
  core::Bytes most{};
  for (const program::RankClass& k : program_->classes)
    most = std::max(most, program::host_bytes(k));
  return most;
}

}  // namespace planner
