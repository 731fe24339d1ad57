#include "planner/search/split_search.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "core/check.hpp"
#include "models/graph.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/stage/graph_options.hpp"
#include "planner/strategy/resolve.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/kernel.hpp"

namespace planner {
namespace {

using models::kModelInput;
using models::kSplitFactors;
using models::Place;
using models::Placement;
using models::ops::Factor;

constexpr double kImpossible = std::numeric_limits<double>::infinity();

Strategy strategy_of(const SplitQuestion& of) {
  Strategy s;
  s.data = of.data;
  s.split = of.split;
  s.micro_batch = of.micro_batch;
  s.grad_accum = of.grad_accum;
  return s;
}

}  // namespace

SplitCosts::SplitCosts(const Question& question, const SplitQuestion& of,
                       std::span<const std::string> given)
    : spec_(question.model.graph),
      a_(models::analyse(spec_)),
      of_(of),
      given_(given.begin(), given.end()),
      readers_(spec_.operators.size() + 1),
      places_(readers_.size()),
      choices_(readers_.size()),
      times_(readers_.size()) {
  for (const int i : a_.order)
    for (const int from : a_.inputs[at(i)]) readers_[index(from)].push_back(i);
  find_places();
  find_choices(given);
  for (std::size_t f = 0; f < kSplitFactors.size(); ++f) {
    const program::Program program = probe(question, kSplitFactors[f]);
    measure_kernels(program, question.machine, f);
    if (kSplitFactors[f] != Factor::kSample) continue;
    const cost::ActionCost cost(program, program.classes.front(), question.machine);
    measure_moves(cost, question);
    measure_parameters(cost, program.classes.front(), question);
  }
}

// Where readers may want a value; the loss wants samples of the last.
void SplitCosts::find_places() {
  const auto want = [&](int value, const Place& place) {
    std::vector<Place>& places = places_[index(value)];
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  };
  for (const int i : a_.order) {
    const std::uint8_t may = models::factors_of(spec_, a_, i, of_.split);
    for (const Factor f : kSplitFactors)
      if ((may & f) != 0)
        for (const int from : a_.inputs[at(i)])
          want(from, models::read_place(spec_, a_, i, f));
  }
  want(a_.output, {});
}

// Each factor that an operator may have with each set of further places of its value.
void SplitCosts::find_choices(std::span<const std::string> given) {
  const auto fixed = models::annotated(spec_, a_, given, of_.split);
  PLANNER_CHECK(fixed.ok(), "annotations that do not hold are refused before");
  const auto add = [&](int value, std::uint8_t may) {
    const std::vector<Place>& places = places_[index(value)];
    // Of two that cost the same the first is taken, and what follows needs no annotation.
    std::array<Factor, kSplitFactors.size()> factors = kSplitFactors;
    if (value != kModelInput && models::follows(spec_.operators[at(value)].kind))
      std::ranges::reverse(factors);
    for (const Factor f : factors) {
      if ((may & f) == 0) continue;
      const Place made = models::made_place(a_, value, f);
      const auto own = std::ranges::find(places, made) - places.begin();
      for (std::uint32_t offers = 0; offers < 1U << places.size(); ++offers)
        if ((offers >> own & 1U) == 0) choices_[index(value)].push_back({f, offers});
    }
  };
  add(kModelInput, Factor::kSample);
  for (const int i : a_.order) {
    const std::uint8_t asked = (*fixed)[at(i)];
    add(i, asked != 0 ? asked : models::factors_of(spec_, a_, i, of_.split));
  }
}

program::Program SplitCosts::probe(const Question& question, Factor factor) const {
  Strategy s = strategy_of(of_);
  for (const int i : a_.order)
    if ((models::factors_of(spec_, a_, i, of_.split) & factor) != 0)
      s.splits.push_back(spec_.operators[at(i)].name + "=" + std::string(models::name(factor)));
  resolve_in_place(question.model, s);
  const auto graph = models::build_graph(
      question.model, graph_options(question.job, s, question.profile.framework));
  PLANNER_CHECK(graph.ok(), "factors that operators divide along make a graph");
  return lower(*graph, question.job, s, policy_of(question));
}

// Forward and backward, by the names of the model file.
void SplitCosts::measure_kernels(const program::Program& probe, const cost::Machine& machine,
                                 std::size_t factor) {
  const program::RankClass& k = probe.classes.front();
  const cost::ActionCost cost(probe, k, machine);
  std::map<std::string_view, double> seconds;
  for (const program::Block& block : k.blocks)
    for (std::uint32_t i = block.first; i < block.last; ++i)
      if (const program::Action& a = k.actions[i]; cost::ActionCost::is_operator(a.kind))
        seconds[k.operators[a.op].name] += core::to_seconds(cost(a, {})).value();
  for (const int i : a_.order) {
    const std::string& own = spec_.operators[at(i)].name;
    for (const char* part : {"", ".add_bias", ".qkv", ".qk_norm", ".rope", ".gate_up"})
      if (const auto found = seconds.find(own + part); found != seconds.end())
        times_[index(i)].kernels[factor] += found->second;
  }
}

void SplitCosts::measure_moves(const cost::ActionCost& cost, const Question& question) {
  const Recipe recipe = *resolve_recipe(question.job.recipe, question.job.precision);
  const auto seconds = [&](program::Collective c, std::int64_t n) {
    const bool exchanges = c == program::Collective::exchange;
    const program::Transfer move{
        .collective = c,
        .algorithm = exchanges ? program::Algorithm::pairwise : program::Algorithm::ring,
        .what = program::Traffic::split,
        .group = program::Group::expert,
        .wire_type = recipe.activation};
    return (cost.collective_of(move, n) + question.machine.launch).value();
  };
  for (int value = kModelInput; value < std::ssize(spec_.operators); ++value) {
    if (choices_[index(value)].empty()) continue;
    Times& t = times_[index(value)];
    const std::int64_t own = models::elements_of_value(a_, value) * of_.micro_batch;
    const bool backward = value != kModelInput || !spec_.token_inputs.empty();
    t.exchange = (backward ? 2 : 1) * seconds(program::Collective::exchange, own);
    const double gathers = seconds(program::Collective::all_gather, own * of_.split);
    const double scatters = seconds(program::Collective::reduce_scatter, own * of_.split);
    t.gather = gathers + (backward ? scatters : 0);
    t.scatter = scatters + gathers;
  }
}

// Of each parameter its share of what all of them take.
void SplitCosts::measure_parameters(const cost::ActionCost& cost, const program::RankClass& k,
                                    const Question& question) {
  const Recipe recipe = *resolve_recipe(question.job.recipe, question.job.precision);
  const auto reduction = [&](program::Group group, std::int64_t n) {
    const program::Transfer reduce{.collective = program::Collective::all_reduce,
                                   .algorithm = program::Algorithm::ring,
                                   .what = program::Traffic::gradients,
                                   .group = group,
                                   .wire_type = recipe.gradient};
    return cost.collective_of(reduce, n).value();
  };
  double state = 0;
  for (const program::Buffer& b : k.buffers)
    for (int l = 0; l < (b.persistent && !b.host ? b.extent : 0); ++l)
      state += static_cast<double>(b.instance_bytes(l).value());
  const std::int64_t n = k.trained_elements;
  const double whole = reduction(program::Group::data, n);
  const double divided =
      of_.data > of_.split ? reduction(program::Group::expert_data, n / of_.split) : 0;
  std::map<std::string, int> owners;
  for (int i = 0; i < std::ssize(spec_.operators); ++i)
    for (const char* const part : {".weight", ".bias", ".positions", ".q_norm", ".k_norm"})
      owners[spec_.operators[at(i)].name + part] = i;
  for (const program::PlacedParameter& p : k.parameters) {
    const double share = static_cast<double>(p.parameter.elements) / static_cast<double>(n);
    Times& t = times_[index(owners.at(p.path))];
    t.whole_sync += share * whole;
    t.divided_sync += share * divided;
    t.whole_state += share * state;
    t.divided_state += share * state / static_cast<double>(of_.split);
  }
}

// What brings a value to the places that are offered: by samples, if it is not made so.
double SplitCosts::move_time(int value, const Place& made, std::uint32_t offers) const {
  const Times& t = times_[index(value)];
  const std::vector<Place>& places = places_[index(value)];
  double seconds = 0;
  bool samples = made.placement == Placement::samples;
  for (std::size_t p = 0; p < places.size(); ++p) {
    if ((offers >> p & 1U) == 0) continue;
    if (!samples) seconds += t.exchange, samples = true;
    if (places[p].placement == Placement::whole) seconds += t.gather;
    if (places[p].placement == Placement::columns) seconds += t.exchange;
  }
  return seconds;
}

PairwiseProblem SplitCosts::problem(const SplitWeights& weights) const {
  PairwiseProblem problem;
  const auto steps = static_cast<double>(of_.grad_accum);
  for (int value = kModelInput; value < std::ssize(spec_.operators); ++value) {
    std::vector<double>& own = problem.own.emplace_back();
    if (choices_[index(value)].empty()) own.push_back(0);  // a flatten
    for (const Choice& c : choices_[index(value)]) {
      const Times& t = times_[index(value)];
      const auto f = std::ranges::find(kSplitFactors, c.factor) - kSplitFactors.begin();
      const bool whole = c.factor == Factor::kSample;
      double seconds = t.kernels[static_cast<std::size_t>(f)];
      if (c.factor == Factor::kIn) seconds += t.scatter;
      seconds += move_time(value, models::made_place(a_, value, c.factor), c.offers);
      own.push_back(steps * seconds +
                    weights.synchronise * (whole ? t.whole_sync : t.divided_sync) +
                    weights.state * (whole ? t.whole_state : t.divided_state));
    }
  }
  const auto offered = [&](int value, const Choice& c, const Place& place) {
    if (models::made_place(a_, value, c.factor) == place) return true;
    const std::vector<Place>& places = places_[index(value)];
    return (c.offers >> (std::ranges::find(places, place) - places.begin()) & 1U) != 0;
  };
  for (const int i : a_.order)
    for (const int from : a_.inputs[at(i)]) {
      PairwiseProblem::Pair pair{static_cast<int>(index(from)), static_cast<int>(index(i)), {}};
      for (const Choice& made : choices_[index(from)])
        for (const Choice& reads : choices_[index(i)]) {
          const Place place = models::read_place(spec_, a_, i, reads.factor);
          pair.cost.push_back(offered(from, made, place) ? 0 : kImpossible);
        }
      problem.pairs.push_back(std::move(pair));
    }
  std::vector<double>& last = problem.own[index(a_.output)];
  for (std::size_t c = 0; c < last.size(); ++c)
    if (!offered(a_.output, choices_[index(a_.output)][c], {})) last[c] = kImpossible;
  return problem;
}

std::vector<std::string> SplitCosts::annotations(std::span<const int> choices) const {
  models::Splits splits(spec_.operators.size(), Factor::kSample);
  for (const int i : a_.order)
    splits[at(i)] = choices_[index(i)][at(choices[index(i)])].factor;
  return models::split_texts(spec_, a_, splits, of_.split, given_);
}

std::vector<int> SplitCosts::choices_of(const models::Splits& splits) const {
  std::vector<int> found(choices_.size(), 0);
  const auto offers_of = [&](int value, Factor factor) {
    std::uint32_t offers = 0;
    const std::vector<Place>& places = places_[index(value)];
    const auto want = [&](const Place& place) {
      if (place == models::made_place(a_, value, factor)) return;
      offers |= 1U << (std::ranges::find(places, place) - places.begin());
    };
    for (const int i : readers_[index(value)])
      want(models::read_place(spec_, a_, i, splits[at(i)]));
    if (value == a_.output) want({});
    return offers;
  };
  for (int value = kModelInput; value < std::ssize(spec_.operators); ++value) {
    const Factor factor = value == kModelInput ? Factor::kSample : splits[at(value)];
    const std::vector<Choice>& choices = choices_[index(value)];
    if (choices.empty()) continue;
    const std::uint32_t offers = offers_of(value, factor);
    const auto same = std::ranges::find_if(
        choices, [&](const Choice& c) { return c.factor == factor && c.offers == offers; });
    PLANNER_CHECK(same != choices.end(), "splits that the annotations allow");
    found[index(value)] = static_cast<int>(same - choices.begin());
  }
  return found;
}

double SplitCosts::least(PairwiseProblem problem, int i, Factor factor) const {
  std::vector<double>& own = problem.own[index(i)];
  for (std::size_t c = 0; c < own.size(); ++c)
    if (choices_[index(i)][c].factor != factor) own[c] = kImpossible;
  return minimise(problem).cost;
}

double SplitCosts::seconds(const models::Splits& splits, const SplitWeights& weights) const {
  return cost_of(problem(weights), choices_of(splits));
}

// Bytes of state that a rank keeps.
static double state_of(const SplitCosts& costs, const models::Splits& splits) {
  return costs.seconds(splits, {0, 1}) - costs.seconds(splits, {0, 0});
}

// Whether a division saves time or state that anybody would divide operators for; else each would
// be one more way to do everything that can be done without.
static bool is_worth_it(const SplitCosts& costs, const models::Splits& whole,
                        const models::Splits& splits) {
  constexpr double kTime = 0.995, kState = 0.9;
  constexpr SplitWeights kHidden{0.3, 0};
  return costs.seconds(splits, kHidden) < kTime * costs.seconds(whole, kHidden) ||
         state_of(costs, splits) < kState * state_of(costs, whole);
}

std::vector<SplitChoice> split_choices(const Question& question, std::int64_t data,
                                       std::int64_t split, std::span<const std::string> given) {
  const std::int64_t of_rank = std::max<std::int64_t>(1, question.job.global_batch / data);
  std::vector<std::int64_t> sizes{1};
  for (std::int64_t b = 2; b <= of_rank; b *= 2)
    if (of_rank % b == 0 && b * b >= of_rank) sizes.push_back(b);
  if (of_rank > 1) sizes.push_back(of_rank);
  if (sizes.size() > 3) sizes = {1, sizes[1], of_rank};
  // A byte of state as it is read and written, then as if there were hardly any room.
  const double byte = cost::memory_time(core::Bytes(1 << 30), question.machine).value() / (1 << 30);
  constexpr std::size_t kForTime = 3;  // of these, from the first on
  const std::array<SplitWeights, 5> kinds{SplitWeights{1, 2 * byte}, {0.3, 2 * byte},
                                          {0, 2 * byte}, {0.3, 1e2 * byte}, {0.3, 1e4 * byte}};
  std::vector<SplitChoice> found;
  const models::GraphAnalysis analysis = models::analyse(question.model.graph);
  const auto whole = models::complete_splits(question.model.graph, analysis, given, split);
  PLANNER_CHECK(whole.ok(), "annotations that do not hold are refused before");
  for (const std::int64_t size : sizes) {
    const std::int64_t passes = std::max<std::int64_t>(1, of_rank / size);
    const SplitCosts costs(question, {data, split, size, passes}, given);
    // Where whole state takes little of a device, nobody pays time for less of it.
    constexpr double kLittle = 0.25;
    const bool ample = state_of(costs, *whole) <
                       kLittle * static_cast<double>(question.profile.gpu.usable.value());
    for (const SplitWeights& weights : std::span(kinds).first(ample ? kForTime : kinds.size())) {
      const Assignment best = minimise(costs.problem(weights));
      SplitChoice choice{split, costs.annotations(best.choices)};
      const bool known = std::ranges::any_of(
          found, [&](const SplitChoice& c) { return c.splits == choice.splits; });
      if (choice.splits.empty() || known) continue;
      const auto splits = models::complete_splits(question.model.graph, analysis, choice.splits,
                                                  split);
      PLANNER_CHECK(splits.ok(), "annotations of an assignment");
      if (!given.empty() || is_worth_it(costs, *whole, *splits)) found.push_back(std::move(choice));
    }
  }
  return found;
}

}  // namespace planner
