#include "planner/search/split_report.hpp"

#include <algorithm>
#include <set>

#include "core/check.hpp"
#include "models/graph.hpp"
#include "planner/question/job.hpp"
#include "planner/search/split_search.hpp"

namespace planner {
namespace {

using models::kModelInput;
using models::Place;
using models::Placement;
using models::ops::Factor;

// As SplitWeights are understood here: time alone, with the part of gradients that is not hidden.
constexpr SplitWeights kTime{0.3, 0};

class Reporter {
 public:
  Reporter(const Question& question, const Strategy& s)
      : question_(question),
        s_(s),
        spec_(question.model.graph),
        a_(models::analyse(spec_)),
        splits_(*models::complete_splits(spec_, a_, s.splits, s.split)) {}

  SplitReport run(std::string_view priced) {
    SplitReport report{s_.split, {}, {}};
    const SplitCosts costs(question_, {s_.data, s_.split, s_.micro_batch, s_.grad_accum}, {});
    const PairwiseProblem problem = costs.problem(kTime);
    int count = 0;
    for (const int i : a_.order) {
      DividedOperator& op = report.operators.emplace_back();
      op.index = i;
      op.name = spec_.operators[at(i)].name;
      op.kind = models::name(spec_.operators[at(i)].kind);
      op.factor = splits_[at(i)];
      const bool wanted = priced.empty() ? count < kMostPriced : op.name == priced;
      if (wanted && price_otherwise(op, costs, problem)) ++count;
    }
    count_parameters(report);
    add_moves(report);
    return report;
  }

 private:
  // Operators with parameters alone: the others follow them. Whether there was anything to price.
  bool price_otherwise(DividedOperator& op, const SplitCosts& costs,
                       const PairwiseProblem& problem) const {
    if (models::follows(spec_.operators[at(op.index)].kind)) return false;
    const double chosen = cost_of(problem, costs.choices_of(splits_));
    const std::uint8_t may = models::factors_of(spec_, a_, op.index, s_.split);
    for (const Factor f : models::kSplitFactors) {
      if ((may & f) == 0 || f == op.factor) continue;
      const core::Seconds more(costs.least(problem, op.index, f) - chosen);
      if (!op.otherwise || more < op.otherwise_costs) op.otherwise = f, op.otherwise_costs = more;
    }
    return op.otherwise.has_value();
  }

  void count_parameters(SplitReport& report) const {
    const auto graph =
        models::build_graph(question_.model, {.split = s_.split, .splits = s_.splits});
    PLANNER_CHECK(graph.ok(), "a strategy without problems has a graph");
    for (DividedOperator& op : report.operators) {
      op.parameters = 0;
      for (const models::Segment& layer : graph->templates)
        for (const models::Parameter& p : layer.parameters)
          if (p.name == op.name + ".weight" || p.name == op.name + ".bias")
            op.parameters += p.elements;
    }
  }

  // A rank sends (ways - 1) / ways of all ranks' samples where they are gathered or scattered, and
  // of its own where they are exchanged; backward as much, but of an input that is no embedding.
  core::Bytes sent(int value, bool whole) const {
    const core::DType type =
        resolve_recipe(question_.job.recipe, question_.job.precision)->activation;
    const std::int64_t own = models::elements_of_value(a_, value) * s_.micro_batch;
    const core::Bytes all = core::bytes_of(own * (whole ? s_.split : 1), type);
    const bool trained = value != kModelInput || !spec_.token_inputs.empty();
    const std::int64_t passes = (trained ? 2 : 1) * s_.grad_accum;
    return core::Bytes(all.value() / s_.split * (s_.split - 1) * passes);
  }

  // What the builder of graphs moves: by samples, and each place once.
  void add_moves(SplitReport& report) const {
    std::set<std::pair<int, Place>> there;
    const auto add = [&](int from, int to, const Place& read) {
      const Factor factor = from == kModelInput ? Factor::kSample : splits_[at(from)];
      const Place samples{}, made = models::made_place(a_, from, factor);
      SplitMove move{from, to, read != made || factor == Factor::kIn, {}};
      const bool sums = factor == Factor::kIn && there.insert({from, made}).second;
      if (sums) move.bytes += sent(from, true);
      if (read != made && there.insert({from, read}).second) {
        if (made != samples && read != samples && there.insert({from, samples}).second)
          move.bytes += sent(from, false);
        move.bytes += sent(from, read.placement == Placement::whole);
      }
      report.moves.push_back(move);
    };
    for (const int i : a_.order)
      for (const int from : a_.inputs[at(i)])
        add(from, i, models::read_place(spec_, a_, i, splits_[at(i)]));
    add(a_.output, kLoss, {});
  }

  const Question& question_;
  const Strategy& s_;
  const models::GraphSpec& spec_;
  const models::GraphAnalysis a_;
  const models::Splits splits_;
};

}  // namespace

SplitReport split_report(const Question& question, const Strategy& strategy,
                         std::string_view priced) {
  return Reporter(question, strategy).run(priced);
}

}  // namespace planner
