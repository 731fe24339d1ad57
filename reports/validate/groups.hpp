#pragma once
// Choice among alternatives: of each group with at least kGroupRows timed rows, what the prediction
// would pick, what was fastest, and where the two steps were mis-said. Pure; thread-safe.

#include <cstddef>
#include <string>
#include <vector>

namespace reports::validation {

struct Predicted;

struct GroupScore {
  std::string name;
  std::size_t rows = 0;
  // Measured step of the row predicted fastest, of those predicted to fit (of all, if none is),
  // over the fastest measured step, less 1; its rank by measured step, from 1.
  double regret = 0;
  std::size_t rank = 1;
  std::string pick, best;                // rows' ids
  double pick_error = 0, best_error = 0; // (predicted - measured) / measured
  // Whether the fastest measured step lies in the interval that its row's prediction states.
  bool best_in_interval = false;
  // The term of time in which the two predictions differ the most: what made the pick.
  std::string differ_in;
  double ordered_alike = 0, pairs = 0;   // Kendall's tau: pairs alike less those against, and all
};

// In the order of their names.
std::vector<GroupScore> group_scores(const std::vector<Predicted>& rows);

}  // namespace reports::validation
