#include "planner/search/markov_chain.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "core/check.hpp"
#include "core/random.hpp"
#include "models/graph.hpp"
#include "models/splits.hpp"
#include "planner/search/elimination.hpp"
#include "planner/stage/graph_options.hpp"
#include "planner/strategy/problems.hpp"
#include "planner/strategy/resolve.hpp"

namespace planner {
namespace {

using models::ops::Factor;

// A step that is longer by this share of itself is taken once in e times.
constexpr double kTemperature = 0.01;
// It ends where the last half of all proposals met nothing faster, as [flexflow]'s ends by time.
constexpr std::int64_t kFewestProposals = 500, kMostProposals = 50'000;
constexpr std::uint64_t kWalkStream = 0x6d636d63;  // of the seed

class Walker {
 public:
  Walker(const Question& question, const Strategy& from, std::span<const std::string> given)
      : question_(question),
        base_(from),
        given_(given.begin(), given.end()),
        spec_(question.model.graph),
        a_(models::analyse(spec_)) {
    const auto fixed = models::annotated(spec_, a_, given_, base_.split);
    PLANNER_CHECK(fixed.ok(), "annotations that do not hold are refused before");
    for (const int i : a_.order) {
      const std::uint8_t may = models::factors_of(spec_, a_, i, base_.split);
      const bool free = (*fixed)[at(i)] == 0 && !models::follows(spec_.operators[at(i)].kind);
      if (free && std::popcount(may) > 1) movable_.push_back({i, may});
    }
    factors_.assign(movable_.size(), Factor::kSample);
  }

  Walk run(std::uint64_t seed) {
    const core::Random random(seed, kWalkStream);
    Walk walk;
    walk.chain.seed = seed;
    double now = seconds_of(factors_, walk);
    walk.chain.start = core::Seconds(now);
    std::int64_t improved_at = 0;
    for (std::int64_t n = 0; n < kMostProposals && !movable_.empty(); ++n) {
      if (n - improved_at >= std::max(kFewestProposals, n / 2)) break;
      ++walk.chain.proposals;
      const core::Seconds before = walk.chain.found;
      std::vector<Factor> next = factors_;
      change_one(next, random, n);
      const double then = seconds_of(next, walk);
      if (walk.chain.found != before) improved_at = n;
      const double worse = (then - now) / (kTemperature * now);
      if (!(then <= now) && !(random.uniform(3 * index(n) + 2) < std::exp(-worse))) continue;
      ++walk.chain.accepted;
      now = then;
      factors_ = std::move(next);
    }
    return walk;
  }

 private:
  struct Movable {
    int op;
    std::uint8_t may;                  // bits of Factor
  };
  static std::uint64_t index(std::int64_t n) { return static_cast<std::uint64_t>(n); }

  void change_one(std::vector<Factor>& factors, const core::Random& random, std::int64_t n) const {
    const auto m = static_cast<std::size_t>(random.below(3 * index(n), movable_.size()));
    std::vector<Factor> others;
    for (const Factor f : models::kSplitFactors)
      if ((movable_[m].may & f) != 0 && f != factors[m]) others.push_back(f);
    factors[m] =
        others[static_cast<std::size_t>(random.below(3 * index(n) + 1, others.size()))];
  }

  std::vector<std::string> texts_of(const std::vector<Factor>& factors) const {
    std::vector<std::string> all = given_;
    for (std::size_t m = 0; m < movable_.size(); ++m)
      all.push_back(spec_.operators[at(movable_[m].op)].name + "=" +
                    std::string(models::name(factors[m])));
    const auto complete = models::complete_splits(spec_, a_, all, base_.split);
    PLANNER_CHECK(complete.ok(), "factors that operators divide along");
    return models::split_texts(spec_, a_, *complete, base_.split, given_);
  }

  // Of the simulated step; infinite where it does not fit. Keeps the fastest in the walk.
  double seconds_of(const std::vector<Factor>& factors, Walk& walk) {
    const auto [known, fresh] =
        known_.try_emplace(factors, std::numeric_limits<double>::infinity());
    if (!fresh) return known->second;
    Strategy s = base_;
    s.splits = texts_of(factors);
    resolve_in_place(question_.model, s);
    if (!strategy_problems(question_.model, question_.job, s, question_.gpus, true).empty())
      return known->second;
    const auto graph = models::build_graph(
        question_.model, graph_options(question_.job, s, question_.profile.framework));
    PLANNER_CHECK(graph.ok(), "a strategy without problems has a graph");
    std::optional<Candidate> made = evaluate_fitting(
        question_, *graph, s, core::Seconds(std::numeric_limits<double>::infinity()), true);
    if (!made) return known->second;
    known->second = made->time.step.value();
    if (!walk.best || made->time.step < walk.best->time.step) {
      walk.chain.found = made->time.step;
      walk.chain.splits = s.splits;
      walk.best = std::move(made);
    }
    return known->second;
  }

  const Question& question_;
  const Strategy base_;
  const std::vector<std::string> given_;
  const models::GraphSpec& spec_;
  const models::GraphAnalysis a_;
  std::vector<Movable> movable_;
  std::vector<Factor> factors_;        // of each, now
  std::map<std::vector<Factor>, double> known_;
};

}  // namespace

Walk walk_divisions(const Question& question, const Strategy& from,
                    std::span<const std::string> given, std::uint64_t seed) {
  PLANNER_CHECK(from.split >= 2 && from.data % from.split == 0, "ranks that divide operators");
  return Walker(question, from, given).run(seed);
}

void try_chain(const Question& question, const Request& request, Plan& plan) {
  if (!request.chain || !plan.chosen) return;
  Strategy from = plan.chosen->strategy;
  if (from.split == 1 && request.constraints.admits("split", from.data)) from.split = from.data;
  if (from.split < 2) {
    plan.assumptions.push_back("no Markov chain was walked: the choice has no data ranks that may "
                               "divide operators");
    return;
  }
  from.splits.clear();
  Walk walk = walk_divisions(question, from, request.constraints.pinned_items("splits"),
                             *request.chain);
  walk.chain.exact = plan.chosen->time.step;
  plan.search.chain = walk.chain;
  if (!walk.best || !(walk.best->time.step < plan.chosen->time.step)) return;
  const auto graph = models::build_graph(
      question.model,
      graph_options(question.job, walk.best->strategy, question.profile.framework));
  PLANNER_CHECK(graph.ok(), "a candidate without a graph");
  std::optional<Candidate> exact = settled(question, *graph, *std::move(walk.best));
  if (!exact || exact->uncertainty.out_of_memory > request.max_risk) return;
  plan.alternatives.insert(plan.alternatives.begin(), *std::move(plan.chosen));
  plan.alternatives.resize(
      std::min(plan.alternatives.size(), static_cast<std::size_t>(std::max(0, request.top))));
  plan.chosen = std::move(exact);
  plan.because = Because::fastest;
}

core::Problems chain_problems(const Request& request) {
  if (!request.chain) return {};
  constexpr const char* kOption = "--search mcmc";
  core::Problems problems;
  const models::Family family = request.model.family;
  if (family != models::Family::graph)
    problems.push_back({kOption, "a model that is a graph of operators, as alexnet is",
                        "a model of family " + std::string(models::name(family)),
                        "leave it out: every strategy of such a model is tried"});
  if (request.job.mode == Mode::inference)
    problems.push_back({kOption, "--mode train", "inference", "leave it out"});
  if (request.objective != Objective::time)
    problems.push_back({kOption, "--objective time", std::string(name(request.objective)),
                        "leave one of them out: the walk follows the step's time"});
  if (request.robust)
    problems.push_back({kOption, "no --robust beside it", "--robust", "leave one of them out"});
  if (request.candidate != 1)
    problems.push_back({kOption, "--candidate 1", std::to_string(request.candidate),
                        "leave one of them out: the walk is held against the best"});
  return problems;
}

}  // namespace planner
