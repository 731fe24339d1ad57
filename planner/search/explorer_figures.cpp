// Of the explorer what it evaluates: figures of a strategy, and candidates.
#include <algorithm>
#include <limits>
#include <span>

#include "core/check.hpp"
#include "core/parallel.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/communicators.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/lowering/rescale.hpp"
#include "planner/search/explorer.hpp"
#include "planner/search/uneven.hpp"
#include "sim/program/bound.hpp"

namespace planner {

static constexpr core::Seconds kNoLimit{std::numeric_limits<double>::infinity()};

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

const std::vector<closed_form::Figures>& Explorer::lowered(const Strategy& resolved) {
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
const std::vector<closed_form::Figures>& Explorer::figures_of(const Strategy& s, bool closed) {
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
bool Explorer::share(std::uint32_t index) {
  Strategy& s = structures_[index].strategy;
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
  shares_[{index, s.micro_batch}] = s.shares;
  return true;
}

Candidate Explorer::candidate(const Strategy& strategy, std::size_t question) {
  Candidate c = evaluate(questions_[question], graph(strategy), strategy);
  count(c);
  return c;
}

std::optional<Candidate> Explorer::fitting(const Strategy& strategy, std::size_t question) {
  std::optional<Candidate> c =
      evaluate_fitting(questions_[question], graph(strategy), strategy, kNoLimit, true);
  count(c);
  return c;
}

std::vector<std::optional<Candidate>> Explorer::fitting(const std::vector<Strategy>& strategies,
                                                        int threads, bool estimates,
                                                        std::span<const core::Seconds> most) {
  std::vector<const models::ModelGraph*> graphs;  // of a map: they stay where they are
  for (const Strategy& s : strategies) graphs.push_back(&graph(s));
  std::vector<std::optional<Candidate>> all(strategies.size());
  core::for_each_index(all.size(), threads, [&](std::size_t i) {
    all[i] = evaluate_fitting(questions_.front(), *graphs[i], strategies[i],
                              most.empty() ? kNoLimit : most[i], estimates);
  });
  for (const auto& c : all) count(c);
  return all;
}

std::optional<Candidate> Explorer::settled(const Candidate& c, int threads) {
  return planner::settled(questions_.front(), graph(c.strategy), c, threads);
}

void Explorer::count(const std::optional<Candidate>& c) {
  ++counts_.replayed;
  if (c && c->evaluator != "closed_form") ++counts_.simulated;
}

std::optional<Measure> Explorer::measure(const Strategy& strategy) {
  const Question& q = questions_.front();
  if (!strategy_problems(q.model, q.job, strategy, q.gpus).empty()) return std::nullopt;
  const Strategy s = resolved(strategy);
  ++counts_.evaluated;
  const bool closed = evaluator_.prepare(s, graph(s));
  program_.reset();
  const auto& figures = figures_of(s, closed);
  if (host_overflows(q.profile.node, q.gpus, host_bytes(s, closed))) return std::nullopt;
  return measured(s, 0, regime_on(0, s), figures.front());
}

std::optional<Measure> Explorer::foreseen(const Strategy& s) {
  if (!evaluator_.prepare(s, graph(s))) return std::nullopt;
  ++counts_.evaluated;
  const closed_form::Figures& figures = figures_of(s, true).front();
  return measured(s, 0, regime_on(0, s), figures);
}

}  // namespace planner
