// Of the explorer what it evaluates: candidates.
#include <limits>
#include <span>

#include "core/parallel.hpp"
#include "planner/search/explorer.hpp"
#include "planner/strategy/problems.hpp"

namespace planner {

static constexpr core::Seconds kNoLimit{std::numeric_limits<double>::infinity()};

Candidate Explorer::candidate(const Strategy& strategy, std::size_t question) {
  Candidate c = evaluate(questions_[question], worker_.graph(strategy), strategy);
  count(c);
  return c;
}

std::optional<Candidate> Explorer::fitting(const Strategy& strategy, std::size_t question) {
  std::optional<Candidate> c =
      evaluate_fitting(questions_[question], worker_.graph(strategy), strategy, kNoLimit, true);
  count(c);
  return c;
}

std::vector<std::optional<Candidate>> Explorer::fitting(const std::vector<Strategy>& strategies,
                                                        int threads, bool estimates,
                                                        std::span<const core::Seconds> most) {
  std::vector<const models::ModelGraph*> graphs;  // of a map: they stay where they are
  for (const Strategy& s : strategies) graphs.push_back(&worker_.graph(s));
  std::vector<std::optional<Candidate>> all(strategies.size());
  core::for_each_index(all.size(), threads, [&](std::size_t i) {
    all[i] = evaluate_fitting(questions_.front(), *graphs[i], strategies[i],
                              most.empty() ? kNoLimit : most[i], estimates);
  });
  for (const auto& c : all) count(c);
  return all;
}

std::optional<Candidate> Explorer::settled(const Candidate& c, int threads) {
  return planner::settled(questions_.front(), worker_.graph(c.strategy), c, threads);
}

void Explorer::count(const std::optional<Candidate>& c) {
  ++found_.counts.replayed;
  if (c && c->evaluator != "closed_form") ++found_.counts.simulated;
}

std::optional<Measure> Explorer::measure(const Strategy& strategy) {
  const Question& q = questions_.front();
  if (!strategy_problems(q.model, q.job, strategy, q.gpus).empty()) return std::nullopt;
  ++found_.counts.evaluated;
  return worker_.measure(resolved(strategy));
}

std::optional<Measure> Explorer::foreseen(const Strategy& s) {
  std::optional<Measure> found = worker_.foreseen(s);
  if (found) ++found_.counts.evaluated;
  return found;
}

}  // namespace planner
