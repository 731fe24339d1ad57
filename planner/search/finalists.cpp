#include "planner/search/finalists.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/preference.hpp"
#include "planner/search/ranking.hpp"
#include "planner/search/variants.hpp"

namespace planner {
namespace {

constexpr int kRounds = 3;             // of changes on top of each other
constexpr double kClosedForm = 1.03;   // how far its steps may be off

// Pipelines without flush apart: of what flushes, V shapes may be the fastest.
auto family(const Strategy& s) {
  return std::make_tuple(s.data, s.tensor, s.pipeline, s.expert, s.expert_tensor,
                         s.split, s.splits, s.sharding,
                         s.checkpoint, s.recompute_modules, s.offload.size(), flushes(s.schedule));
}

// The best of each family that fit by replay, in the order of the ranking. Those that would be the
// finalists if every one fitted are replayed together; which are found does not depend on it.
class Finalists {
 public:
  Finalists(Explorer& explorer, const Request& request, bool estimates)
      : explorer_(explorer),
        request_(request),
        estimates_(estimates),
        ranking_(explorer, 0, request.objective) {}

  // Until `wanted` are in the class of risk of the first, as the entries are by their bounds.
  std::vector<Candidate> first(std::size_t wanted) {
    constexpr std::size_t kMostOfWanted = 3;  // replays
    constexpr int kDoubts = 3;         // that proved right; others like them are passed over
    std::vector<Candidate> fit;
    std::size_t replays = 0, as_safe = 0;
    int doubts = 0;
    for (std::size_t i = 0; as_safe < wanted && reach(i); ++i) {
      if (fit.size() >= wanted && (replays >= kMostOfWanted * wanted || risk(i) > risk(0))) break;
      if (seen(fit, i) || (doubts >= kDoubts && is_doubtful(i))) continue;
      if (!known_.contains(i)) replays += replay(fit, i, wanted - as_safe);
      auto& c = known_.at(i);
      doubts += !c || risk(*c) > risk(i) ? 1 : 0;
      if (!c) continue;
      as_safe += risk(*c) <= risk(0) ? 1 : 0;
      fit.push_back(*std::move(c));
    }
    // What is too risky stays where nothing else fits; the front shows it (Plan::pareto).
    std::ranges::stable_sort(fit, {}, [&](const Candidate& c) {
      return rank_of(explorer_.question().job, c, request_);
    });
    while (fit.size() > wanted) fit.pop_back();
    return fit;
  }

  // Adds the simplest of what may be within Request::simpler_within of the fastest, which the
  // closed form tells to a few percent.
  void add_simple(std::vector<Candidate>& fit) {
    constexpr std::size_t kSimple = 3;
    if (!prefers_simple() || !reach(0)) return;
    const Entry& fastest = *entries_.front();
    // The first entry may need more memory than its bound says, so that a slower one was found.
    core::Seconds least = fastest.expected;
    if (!fit.empty()) least = std::max(least, counted(fit.front()));
    const core::Seconds most = (1 + request_.simpler_within) * kClosedForm * least;
    std::vector<std::pair<Complexity, const Entry*>> all;
    for (const Entry& e : explorer_.entries(0))
      if (e.expected <= most && risk(e) <= risk(fastest))
        all.emplace_back(complexity(explorer_.structure(e.structure), seq_len()), &e);
    std::ranges::sort(all, [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second->expected) < std::tie(b.first, b.second->expected);
    });
    std::vector<const Entry*> picked;
    for (const auto& [how, e] : all) {
      if (picked.size() == kSimple) break;
      // Of a family that is there already, only what is simpler.
      const auto own = family(explorer_.structure(e->structure));
      const auto same = [&](const Strategy& s) {
        return family(s) == own && complexity(s, seq_len()) <= how;
      };
      if (std::ranges::any_of(fit, same, &Candidate::strategy) ||
          std::ranges::any_of(picked, [&](const Entry* p) {
            return same(explorer_.structure(p->structure));
          }))
        continue;
      picked.push_back(e);
    }
    add(picked, fit);
  }

  // If the one that would be chosen gathers weights in every layer (zero3), adds the fastest entry
  // that is like it but shards less. The choice between them is order_by_preference's.
  void add_less_sharded(std::vector<Candidate>& fit) {
    if (!prefers_simple()) return;
    if (const Entry* e = less_sharded(fit)) add({e}, fit);
  }

 private:
  bool prefers_simple() const {
    return request_.objective != Objective::memory && request_.simpler_within > 0;
  }
  // Null: there is none, or it is there already.
  const Entry* less_sharded(std::vector<Candidate> fit) const {
    if (fit.empty()) return nullptr;
    order_by_preference(fit, explorer_.question().job, request_);
    const Strategy& chosen = fit.front().strategy;
    if (chosen.sharding != Sharding::zero3) return nullptr;
    const core::Seconds most = (1 + kGatheringGains) * kClosedForm * counted(fit.front());
    const Entry* best = nullptr;
    for (const Entry& e : explorer_.entries(0))
      if (e.expected <= (best != nullptr ? best->expected : most) && risk(e) <= risk(fit.front()) &&
          shards_less(explorer_.structure(e.structure), chosen, seq_len()))
        best = &e;
    const bool known = best != nullptr && std::ranges::any_of(fit, [&](const Candidate& c) {
      return family(c.strategy) == family(explorer_.structure(best->structure));
    });
    return known ? nullptr : best;
  }
  void add(const std::vector<const Entry*>& entries, std::vector<Candidate>& fit) {
    for (auto& c : replayed(entries))
      if (c) fit.push_back(*std::move(c));
  }

  int risk(const Entry& e) const { return explorer_.risks(0, e.regime).of_bound(e.device); }
  int risk(std::size_t i) const { return risk(*entries_[i]); }
  int risk(const Candidate& c) const {
    return RiskClasses::of_probability(c.uncertainty.out_of_memory, request_.max_risk);
  }
  // What the allocator holds beside what lives may put it into the next class.
  bool is_doubtful(std::size_t i) const {
    const Entry& e = *entries_[i];
    const auto most = kAllocatorSlack * static_cast<double>(e.device.value());
    return explorer_.risks(0, e.regime).of(core::Bytes(static_cast<std::int64_t>(most))) > risk(i);
  }
  std::int64_t seq_len() const { return explorer_.question().job.seq_len; }
  core::Seconds counted(const Candidate& c) const {
    return counted_step(explorer_.question().job, c.strategy, c.time.step,
                        c.uncertainty.out_of_memory);
  }

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
  // Whether its family has one that is as safe as this one may be.
  bool seen(const std::vector<Candidate>& fit, std::size_t i) const {
    return std::ranges::any_of(fit, [&](const Candidate& c) {
      return risk(c) <= risk(i) && family(c.strategy) == family_of(i);
    });
  }
  // Entry i, and the next ones up to `count` of other families. Returns how many.
  std::size_t replay(const std::vector<Candidate>& fit, std::size_t i, std::size_t count) {
    std::vector<std::size_t> batch;
    for (; batch.size() < count && reach(i); ++i) {
      const bool alike = std::ranges::any_of(
          batch, [&](std::size_t other) { return family_of(other) == family_of(i); });
      if (!alike && !known_.contains(i) && !seen(fit, i)) batch.push_back(i);
    }
    std::vector<const Entry*> wanted;
    for (const std::size_t at : batch) wanted.push_back(entries_[at]);
    auto all = replayed(wanted);
    for (std::size_t k = 0; k < batch.size(); ++k) known_[batch[k]] = std::move(all[k]);
    return batch.size();
  }
  std::vector<std::optional<Candidate>> replayed(const std::vector<const Entry*>& entries) {
    std::vector<Strategy> strategies;
    for (const Entry* e : entries) strategies.push_back(explorer_.strategy(*e));
    return explorer_.fitting(strategies, request_.threads, estimates_);
  }

  Explorer& explorer_;
  const Request& request_;
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
        finalists, {}, [&](const Candidate& c) { return rank_of(job(), c, request_); });
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
      if (!others[k] || !beats(*others[k], own, again ? 0 : worth())) continue;
      // A change of checkpoint may come to what is another finalist but for its other keys.
      const bool known = std::ranges::any_of(finalists, [&](const Candidate& f) {
        return &f != &own && family(f.strategy) == family(others[k]->strategy) &&
               !beats(*others[k], f, worth());
      });
      if (known) continue;
      own = *std::move(others[k]);
      if (!again) better.push_back(origins[k]);
    }
    return better;
  }

  // A step counts as at least itself; what is safer may be slower.
  core::Seconds slowest_better(const Candidate& c) const {
    const Rank rank = rank_of(job(), c, request_);
    if (request_.objective == Objective::memory || rank.risk > 0)
      return core::Seconds(std::numeric_limits<double>::infinity());
    return core::Seconds(rank.first);
  }

  // A change must be worth a setting that nobody else has.
  double worth() const { return std::max(kWorth, request_.simpler_within); }

  bool beats(const Candidate& a, const Candidate& b, double by) const {
    const Rank one = rank_of(job(), a, request_), other = rank_of(job(), b, request_);
    if (one.risk != other.risk) return one.risk < other.risk;
    return one.first < (1 - by) * other.first || (by == 0 && one < other);
  }

  // Variants that hold, are not forbidden, and would be the best of all, complete: of those that
  // the closed form describes, which compares them with the same eyes, the most promising.
  std::vector<Strategy> admitted(const Candidate& origin, const Candidate& best) {
    const Question& q = explorer_.question();
    const std::optional<Measure> own = explorer_.foreseen(origin.strategy);
    const double now = rank_of(job(), origin, request_).first;
    std::vector<Strategy> found;
    std::optional<Strategy> promising;
    const Rank goal = rank_of(job(), best, request_);
    Rank least{goal.risk, (1 - worth()) * goal.first, 0};
    for (auto& [s, foreseen] : variants(origin, best.time.step, q)) {
      if (!strategy_problems(q.model, q.job, s, q.gpus).empty()) continue;
      s = explorer_.resolved(std::move(s));
      if (!request_.constraints.admits(s)) continue;
      const auto other = own && foreseen ? explorer_.foreseen(s) : std::nullopt;
      if (!other) {
        found.push_back(std::move(s));
        continue;
      }
      if (cannot_fit(other->device, q.profile.gpu.usable)) continue;
      const Rank then{risk_of(*other), now * (objective_of(*other) / objective_of(*own)), 0};
      if (then.risk > least.risk || (then.risk == least.risk && then.first >= least.first))
        continue;
      least = then;
      promising = std::move(s);
    }
    if (promising) found.push_back(*std::move(promising));
    return found;
  }

  // Of a bound.
  int risk_of(const Measure& m) const {
    if (request_.objective == Objective::memory) return 0;
    return explorer_.risks(0, m.regime).of_bound(m.device);
  }
  const Job& job() const { return explorer_.question().job; }
  double objective_of(const Measure& m) const {
    return request_.objective == Objective::memory ? static_cast<double>(m.device.value())
                                                   : m.expected.value();
  }

  Explorer& explorer_;
  const Request& request_;
  bool estimates_;
};

}  // namespace

std::vector<Candidate> finalists(Explorer& explorer, const Request& request, std::size_t wanted,
                                 bool estimates) {
  Finalists first(explorer, request, estimates);
  std::vector<Candidate> found = first.first(wanted);
  first.add_simple(found);
  Improvement(explorer, request, estimates).run(found);
  first.add_less_sharded(found);       // what was improved may gather weights now
  return found;
}

}  // namespace planner
