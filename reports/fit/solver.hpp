#pragma once
// The values of constants that bring predictions nearest to measured times, by repeated
// linearisation: with u the logarithms of the constants and r(u) those of predicted / measured,
//
//   minimise  sum_i w_i h(r_i + J_i d) + (shift * sum_i v_i (r_i + J_i d))^2
//             + trust * sum_k ((u_k + d_k - prior_k) / spread_k)^2
//             + rank * mean over groups of sum_i p_i (measured_i / least measured - 1)
//             over d within bounds and reach, p = softmax(-log(predicted) / s) within the group
//
// by NLopt's SLSQP [kraft1994], then evaluate at u + d; a step that does not lower the true
// objective is taken back and the reach shortened. h(r) = s^2 (sqrt(1 + (r/s)^2) - 1), a quadratic
// near 0 and |r| s beyond s, so that a row which no constant explains pulls no harder than others.
// w_i = n^-balance, n rows of the case's dataset, scaled to sum 1: balance 0 counts rows, 1
// datasets. The last term is the regret to be expected of a pick among alternatives for one job,
// made smooth (decision 0015). Deterministic.
// O(rounds x (evaluation of all cases x constants of each)).

#include <span>
#include <vector>

#include "reports/fit/cases.hpp"

namespace reports::fit {

struct SolverOptions {
  double balance = 0.5;
  double soft = 0.05;                  // s: residuals within 5 % count squared
  double trust = 2e-4;                 // weight of what is believed beforehand, per constant
  double shift = 0.3;                  // weight of a common bias of all rows
  double rank = 0.05;                  // weight of regret: 1 % of it counts as 1 % of error
  int rounds = 12;
};

struct Solution {
  std::vector<double> values;
  double objective = 0;
  int rounds = 0;
};

// Fits to `chosen`, from `start`. REQUIRES: values within the bounds of their constants.
Solution solve(const Cases& cases, std::span<const std::size_t> chosen,
               std::span<const double> start, const SolverOptions& options);

}  // namespace reports::fit
