#pragma once
// Internal: the least sum of costs of single choices and of pairs of them, exactly, by eliminating
// one variable after the other (bucket elimination [dechter1999]; PaSE's dynamic program [pase] is
// this on an operator graph). Deterministic, pure, thread-safe.

#include <cstddef>
#include <span>
#include <vector>

namespace planner {

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct PairwiseProblem {
  std::vector<std::vector<double>> own;  // by variable: the cost of each of its choices
  struct Pair {
    int a = 0, b = 0;                    // variables, different ones
    std::vector<double> cost;            // choice of a x choices of b + choice of b
  };
  std::vector<Pair> pairs;               // costs may be infinite: never both
};

struct Assignment {
  std::vector<int> choices;              // by variable
  double cost = 0;
  double bound = 0;                      // no assignment costs less; = cost where it is exact
  bool exact() const { return bound == cost; }
};

// Sum of an assignment's costs, in the order of the problem.
double cost_of(const PairwiseProblem& problem, std::span<const int> choices);

// Variables go in the order of the smallest tables that this makes. Where one would have more than
// `most` entries, the answer is instead the best that changes of one variable at a time come to
// from `start` (none: the first choices), with a bound that may be lower than anything there is.
// O(variables x table).
Assignment minimise(const PairwiseProblem& problem, std::span<const int> start = {},
                    std::size_t most = std::size_t{1} << 20);

}  // namespace planner
