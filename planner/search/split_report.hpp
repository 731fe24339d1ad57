#pragma once
// How a strategy divides the operators of a graph, what ranks send each other for it, and what it
// would cost to divide an operator differently: for tables and pictures. Pure; thread-safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/splits.hpp"
#include "planner/evaluate/evaluate.hpp"

namespace planner {

struct DividedOperator {
  int index = 0;                       // in the model file
  std::string name, kind;
  models::ops::Factor factor{};
  std::int64_t parameters = 0;         // of one rank
  // The next best factor, with everything else divided as is best then: seconds of a step more (or
  // fewer, where memory or what finalists showed decided). None: it has one factor, or was not
  // priced.
  std::optional<models::ops::Factor> otherwise{};
  core::Seconds otherwise_costs{};
};

inline constexpr int kLoss = -2;       // reads the last operator's value as samples

// A value and an operator that reads it, where it is or where it is brought: bytes that a rank
// sends for that in a step, forward and backward. Several readers of one place share them: the
// first has them.
struct SplitMove {
  int from = 0, to = 0;                // operators, or models::kModelInput, or kLoss
  bool moves = false;
  core::Bytes bytes{};
};

struct SplitReport {
  std::int64_t ranks = 1;
  std::vector<DividedOperator> operators;  // in topological order
  std::vector<SplitMove> moves;        // of every edge
};

// Of how many operators it is worked out what another factor would cost, from the first on.
inline constexpr int kMostPriced = 64;

// priced: the one operator whose other factors are priced; empty: the first kMostPriced ones.
// REQUIRES: an operator graph, and a strategy of the question without problems.
SplitReport split_report(const Question& question, const Strategy& strategy,
                         std::string_view priced = {});

}  // namespace planner
