// What the unusual parts of a choice buy: the best plan without each.
#include <algorithm>

#include "planner/lowering/lower.hpp"
#include "planner/search/preference.hpp"
#include "planner/search/ranking.hpp"

namespace planner {
namespace {

// As many layers in each stage as divide evenly, earlier stages first.
Strategy evenly_divided(Strategy s) {
  std::int64_t layers = 0;
  for (const std::int64_t n : s.stages) layers += n;
  const auto count = static_cast<std::int64_t>(s.stages.size());
  for (std::int64_t i = 0; i < count; ++i)
    s.stages[static_cast<std::size_t>(i)] = layers / count + (i < layers % count ? 1 : 0);
  return s;
}

class WithoutPart {
 public:
  WithoutPart(Explorer& explorer, const Request& request, const Plan& plan)
      : explorer_(explorer), request_(request), plan_(plan) {}

  // Of what the plan holds and of the ranking's first, those that are as safe as the choice.
  std::optional<Candidate> best(const UnusualPart& part) {
    std::optional<Candidate> found;
    const auto consider = [&](const Candidate& c) {
      if (part.has(c.strategy) || rank(c).risk > rank(*plan_.chosen).risk) return;
      if (!found || rank(c) < rank(*found)) found = c;
    };
    for (const auto* list : {&plan_.alternatives, &plan_.pareto})
      std::ranges::for_each(*list, consider);
    if (const auto ranked = first_of_ranking(part)) consider(*ranked);
    return found;
  }

  std::optional<Candidate> even() {
    const Strategy s = evenly_divided(plan_.chosen->strategy);
    const Question& q = explorer_.question();
    if (!strategy_problems(q.model, q.job, s, q.gpus).empty()) return std::nullopt;
    return explorer_.fitting(s, 0);
  }

 private:
  std::optional<Candidate> first_of_ranking(const UnusualPart& part) {
    constexpr int kMostReplays = 4;    // whose allocator needs more than the choice may
    Ranking ranking(explorer_, 0, request_.objective);
    for (int replays = 0; replays < kMostReplays;) {
      const Entry* entry = ranking.next();
      if (entry == nullptr) break;
      if (part.has(explorer_.structure(entry->structure))) continue;
      ++replays;
      std::optional<Candidate> c = explorer_.fitting(explorer_.strategy(*entry), 0);
      if (c && rank(*c).risk <= rank(*plan_.chosen).risk) return c;
    }
    return std::nullopt;
  }
  Rank rank(const Candidate& c) const { return rank_of(plan_.job, c, request_); }

  Explorer& explorer_;
  const Request& request_;
  const Plan& plan_;
};

}  // namespace

std::vector<Earned> earned_by(Explorer& explorer, const Request& request, const Plan& plan) {
  std::vector<Earned> all;
  WithoutPart without(explorer, request, plan);
  for (const UnusualPart& part : unusual_parts(plan.chosen->strategy, plan.job.seq_len)) {
    Earned e{part.text, {}, {}, {}};
    const bool is_division = part.has == &divides_unevenly;
    if (const auto c = is_division ? without.even() : without.best(part)) {
      e.without = c->strategy;
      e.step = c->time.step;
      e.device = c->memory.worst.device;
    }
    all.push_back(std::move(e));
  }
  return all;
}

}  // namespace planner
