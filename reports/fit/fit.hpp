#pragma once
// A fit over a file of published runs: the constants of constants.json set by all rows, and again
// without each dataset in turn, whose rows are then predicted by constants that never saw them.
// Errors are fractions of the measured time. Pure but for the profiles it loads.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/fit/solver.hpp"
#include "reports/text.hpp"
#include "reports/validate/score.hpp"

namespace reports::fit {

struct FitOptions {
  SolverOptions solver;
  bool leave_out = true;               // the second half: each dataset in turn
  // And each framework, each family of GPUs, and all runs on more than kSmall GPUs.
  bool leave_out_groups = false;
  int starts = 1;                      // the first from the priors, the others drawn about them
  std::uint64_t seed = 1;
  std::function<void(std::string_view done)> progress;
};

// Larger machines are the ones that nobody tries things on.
inline constexpr std::int64_t kSmall = 64;

// A dataset, or another group of rows, as a fit without it predicts it.
struct LeftOut {
  std::string dataset;
  validation::ErrorScore time;
  // After one of its runs, each in turn and not scored, has calibrated the site: by the variances
  // that the other datasets show, and by those of all. Sets of one run: as time.
  validation::ErrorScore one_run, one_run_of_all;
  std::vector<std::pair<std::string, double>> errors;  // by row
  std::vector<planner::SiteRun> runs;                  // the same
  std::vector<planner::Regime> regimes;                // the same
};

// What the left-out rows of a regime show, each dataset weighing 1.
struct RegimeScore {
  planner::Regime regime{};
  std::size_t rows = 0, datasets = 0;
  double mape = 0, bias = 0;
};
std::vector<RegimeScore> by_regime(const std::vector<LeftOut>& left_out);

struct Fitted {
  std::vector<Constant> constants;
  std::vector<std::size_t> cases;      // that each constant concerns
  std::vector<std::size_t> sites;      // datasets of these
  std::vector<double> values;          // in base units
  std::size_t rows = 0;
  validation::ErrorScore training;
  std::vector<std::pair<std::string, validation::ErrorScore>> by_dataset;
  std::vector<LeftOut> left_out;
  std::vector<LeftOut> groups;         // "framework megatron", "GPUs Hopper", "more than 64 GPUs"
  planner::SiteVariances site;         // by the left-out rows
  double objective = 0;
  std::uint64_t seed = 1;
};

// ln(1 + error) of each of its runs.
std::vector<double> ratios_of(const LeftOut& set);

// Means over the left-out datasets, each weighing 1 or its rows.
double mean_of_datasets(const std::vector<LeftOut>& left_out,
                        validation::ErrorScore LeftOut::*score);
double mean_of_rows(const std::vector<LeftOut>& left_out, validation::ErrorScore LeftOut::*score);

Fitted fit(const Cases& cases, const FitOptions& options);

std::string to_json_text(const Fitted& fitted);
std::string fit_text(const Fitted& fitted, TextStyle style);

}  // namespace reports::fit
