#pragma once
// Internal: along what the operators of a graph are divided over ranks (models/splits.hpp), found
// by exact elimination over the graph [pase, flexflow]: the choices of an operator are its factors
// and the places where it offers its value, and a reader takes one of those. Costs are those of
// sim/cost: kernels from lowered probes that divide every operator alike, moves by their elements.
// Deterministic, pure, thread-safe.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/splits.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/search/elimination.hpp"
#include "planner/search/space.hpp"
#include "sim/cost/action.hpp"

namespace planner {

// What a division is for: neighbouring `split` of `data` ranks that take micro_batch samples each,
// grad_accum times a step.
struct SplitQuestion {
  std::int64_t data = 1, split = 1, micro_batch = 1, grad_accum = 1;
};

// How much of the time of adding up gradients counts (what of it nothing hides), and seconds for a
// byte of state that a rank keeps.
struct SplitWeights {
  double synchronise = 1.0, state = 0.0;
};

class SplitCosts {
 public:
  // given: annotations that stay. REQUIRES: they hold (models::annotated); split divides data.
  SplitCosts(const Question& question, const SplitQuestion& of,
             std::span<const std::string> given);

  // Seconds of a step; one variable for the model's input and each operator.
  PairwiseProblem problem(const SplitWeights& weights) const;
  // The annotations that an assignment stands for: the given ones first.
  std::vector<std::string> annotations(std::span<const int> choices) const;
  // The least cost of the problem where operator i is divided along this factor, which it may be.
  double least(PairwiseProblem problem, int i, models::ops::Factor factor) const;
  // Seconds of a step under these splits, as the problem counts them.
  double seconds(const models::Splits& splits, const SplitWeights& weights) const;
  // Choices of the problem that stand for these splits.
  std::vector<int> choices_of(const models::Splits& splits) const;

 private:
  struct Choice {
    models::ops::Factor factor{};
    std::uint32_t offers = 0;          // bits of places_ of the value
  };
  std::size_t index(int value) const { return static_cast<std::size_t>(value + 1); }
  void find_places();
  void find_choices(std::span<const std::string> given);
  // A probe that divides every operator along this factor, where it may be.
  program::Program probe(const Question& question, models::ops::Factor factor) const;
  void measure_kernels(const program::Program& probe, const cost::Machine& machine,
                       std::size_t factor);
  void measure_moves(const cost::ActionCost& cost, const Question& question);
  void measure_parameters(const cost::ActionCost& cost, const program::RankClass& rank_class,
                          const Question& question);
  double move_time(int value, const models::Place& made, std::uint32_t offers) const;

  models::GraphSpec spec_;
  models::GraphAnalysis a_;
  const SplitQuestion of_;
  std::vector<std::string> given_;
  std::vector<std::vector<int>> readers_;        // by value + 1, as all below
  std::vector<std::vector<models::Place>> places_;      // where its readers may want it
  std::vector<std::vector<Choice>> choices_;
  struct Times {
    std::array<double, models::kSplitFactors.size()> kernels{};
    double gather = 0, exchange = 0, scatter = 0;  // of the value, forward and backward
    double whole_sync = 0, divided_sync = 0;     // of its parameters' gradients
    double whole_state = 0, divided_state = 0;   // bytes
  };
  std::vector<Times> times_;
};

// Ways to divide the operators over `split` of `data` ranks, each the best by one of several
// weights of gradients and memory, for the smallest, a middling and the largest micro-batch; those
// that divide nothing are left out. Empty where nothing divides.
std::vector<SplitChoice> split_choices(const Question& question, std::int64_t data,
                                       std::int64_t split, std::span<const std::string> given);

}  // namespace planner
