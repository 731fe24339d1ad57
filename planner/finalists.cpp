#include "planner/finalists.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "core/check.hpp"
#include "planner/lower.hpp"
#include "planner/ranking.hpp"
#include "planner/variants.hpp"

namespace planner {
namespace {

constexpr int kRounds = 3;             // of changes on top of each other

// Pipelines without flush apart: of what flushes, V shapes may be the fastest.
auto family(const Strategy& s) {
  return std::make_tuple(s.data, s.tensor, s.pipeline, s.expert, s.sharding, s.checkpoint,
                         s.offload.size(), is_endless(s.schedule));
}

// The best of each family that fit by replay, in the order of the ranking. Those that would be the
// finalists if every one fitted are replayed together; which are found does not depend on it.
class Finalists {
 public:
  Finalists(Explorer& explorer, const Request& request, bool estimates)
      : explorer_(explorer),
        threads_(request.threads),
        estimates_(estimates),
        ranking_(explorer, 0, request.objective) {}

  std::vector<Candidate> first(std::size_t wanted) {
    std::vector<Candidate> fit;
    for (std::size_t i = 0; fit.size() < wanted && reach(i); ++i) {
      if (seen(fit, i)) continue;
      if (!known_.contains(i)) replay(fit, i, wanted - fit.size());
      if (auto& c = known_.at(i)) fit.push_back(*std::move(c));
    }
    return fit;
  }

 private:
  bool reach(std::size_t i) {
    while (entries_.size() <= i) {
      const Entry* entry = ranking_.next();
      if (entry == nullptr) return false;
      entries_.push_back(entry);
    }
    return true;
  }
  auto family_of(std::size_t i) const {
    return family(explorer_.structure(entries_[i]->structure));
  }
  bool seen(const std::vector<Candidate>& fit, std::size_t i) const {
    return std::ranges::any_of(
        fit, [&](const Candidate& c) { return family(c.strategy) == family_of(i); });
  }
  // Entry i, and the next ones up to `count` of other families.
  void replay(const std::vector<Candidate>& fit, std::size_t i, std::size_t count) {
    std::vector<std::size_t> batch;
    for (; batch.size() < count && reach(i); ++i) {
      const bool alike = std::ranges::any_of(
          batch, [&](std::size_t other) { return family_of(other) == family_of(i); });
      if (!alike && !known_.contains(i) && !seen(fit, i)) batch.push_back(i);
    }
    std::vector<Strategy> strategies;
    for (const std::size_t at : batch) strategies.push_back(explorer_.strategy(*entries_[at]));
    auto replayed = explorer_.fitting(strategies, threads_, estimates_);
    for (std::size_t k = 0; k < batch.size(); ++k) known_[batch[k]] = std::move(replayed[k]);
  }

  Explorer& explorer_;
  int threads_;
  bool estimates_;
  Ranking ranking_;
  std::vector<const Entry*> entries_;  // as far as the ranking was followed
  std::map<std::size_t, std::optional<Candidate>> known_;  // nothing: does not fit
};

// Finalists try their variants, then what came of them its own, until none is better.
class Improvement {
 public:
  Improvement(Explorer& explorer, const Request& request, bool estimates)
      : explorer_(explorer), request_(request), estimates_(estimates) {}

  void run(std::vector<Candidate>& finalists) {
    std::vector<std::size_t> open(finalists.size());
    for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
    for (int round = 0; round < kRounds && !open.empty(); ++round) open = tried(finalists, open);
  }

 private:
  // Those of `open` that became better.
  std::vector<std::size_t> tried(std::vector<Candidate>& finalists,
                                 const std::vector<std::size_t>& open) {
    std::vector<Strategy> strategies;
    std::vector<std::size_t> origins;
    std::vector<core::Seconds> most;     // slower variants are no better
    const Candidate best = *std::ranges::min_element(
        finalists, {}, [&](const Candidate& c) { return rank_of(job(), c, request_.objective); });
    for (const std::size_t i : open)
      for (Strategy& s : admitted(finalists[i], best)) {
        strategies.push_back(std::move(s));
        origins.push_back(i);
        most.push_back(slowest_better(finalists[i]));
      }
    auto others = explorer_.fitting(strategies, request_.threads, estimates_, most);
    std::vector<std::size_t> better;
    for (std::size_t k = 0; k < others.size(); ++k) {
      Candidate& own = finalists[origins[k]];
      // Later ones of the same finalist are held against the best of those before.
      const bool again = !better.empty() && better.back() == origins[k];
      if (!others[k] || !beats(*others[k], own, again ? 0 : kWorth)) continue;
      // A change of checkpoint may come to what is another finalist but for its other keys.
      const bool known = std::ranges::any_of(finalists, [&](const Candidate& f) {
        return &f != &own && family(f.strategy) == family(others[k]->strategy) &&
               !beats(*others[k], f, kWorth);
      });
      if (known) continue;
      own = *std::move(others[k]);
      if (!again) better.push_back(origins[k]);
    }
    return better;
  }

  // A step counts as at least itself.
  core::Seconds slowest_better(const Candidate& c) const {
    if (request_.objective == Objective::memory)
      return core::Seconds(std::numeric_limits<double>::infinity());
    return core::Seconds(rank_of(job(), c, request_.objective).first);
  }

  bool beats(const Candidate& a, const Candidate& b, double by) const {
    const auto first = rank_of(job(), a, request_.objective),
               second = rank_of(job(), b, request_.objective);
    return first.first < (1 - by) * second.first || (by == 0 && first < second);
  }

  // Variants that hold, are not forbidden, and would be the best of all, complete: of those that
  // the closed form describes, which compares them with the same eyes, the most promising.
  std::vector<Strategy> admitted(const Candidate& origin, const Candidate& best) {
    const Question& q = explorer_.question();
    const std::optional<Explorer::Measure> own = explorer_.foreseen(origin.strategy);
    const double now = rank_of(job(), origin, request_.objective).first;
    std::vector<Strategy> found;
    std::optional<Strategy> promising;
    double least = (1 - kWorth) * rank_of(job(), best, request_.objective).first;
    for (auto& [s, foreseen] : variants(origin, best.time.step, q)) {
      if (!strategy_problems(q.model, q.job, s, q.gpus).empty()) continue;
      s = explorer_.resolved(std::move(s));
      if (!request_.constraints.admits(s)) continue;
      const auto other = own && foreseen ? explorer_.foreseen(s) : std::nullopt;
      if (!other) {
        found.push_back(std::move(s));
        continue;
      }
      const double then = now * (objective_of(*other) / objective_of(*own));
      if (then >= least || cannot_fit(other->device, q.profile.gpu.usable)) continue;
      least = then;
      promising = std::move(s);
    }
    if (promising) found.push_back(*std::move(promising));
    return found;
  }

  const Job& job() const { return explorer_.question().job; }
  double objective_of(const Explorer::Measure& m) const {
    return request_.objective == Objective::memory ? static_cast<double>(m.device.value())
                                                   : m.expected.value();
  }

  Explorer& explorer_;
  const Request& request_;
  bool estimates_;
};

}  // namespace

std::pair<double, double> rank_of(const Job& job, const Candidate& c, Objective objective) {
  const auto device = static_cast<double>(c.memory.worst.device.value());
  const double step =
      counted_step(job, c.strategy, c.time.step, c.memory.worst.device, c.memory.usable).value();
  return objective == Objective::memory ? std::make_pair(device, step)
                                        : std::make_pair(step, device);
}

// Addresses of a thousand micro-batches are most of the work: of the many that are tried they are
// estimated, of those that are left they are exact. Should one of these not fit by that, all are
// found anew by exact addresses.
std::vector<Candidate> finalists(Explorer& explorer, const Request& request, std::size_t wanted) {
  for (const bool estimates : {true, false}) {
    std::vector<Candidate> found = Finalists(explorer, request, estimates).first(wanted);
    Improvement(explorer, request, estimates).run(found);
    std::vector<std::optional<Candidate>> exact =
        explorer.settled(std::move(found), request.threads);
    if (!std::ranges::all_of(exact, [](const auto& c) { return c.has_value(); })) continue;
    std::vector<Candidate> all;
    for (auto& c : exact) all.push_back(*std::move(c));
    return all;
  }
  PLANNER_CHECK(false, "an exact candidate fits");
}

}  // namespace planner
