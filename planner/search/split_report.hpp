#pragma once
// How the operators of a graph are divided in a strategy, what moves between them, and what it
// would cost to divide each otherwise: for tables and pictures. Pure; thread-safe.

#include <optional>
#include <string>
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
  // fewer, where memory or what finalists showed decided). None: it has one factor.
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

// REQUIRES: an operator graph, and a strategy of the question without problems.
SplitReport split_report(const Question& question, const Strategy& strategy);

}  // namespace planner
