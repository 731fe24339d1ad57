#pragma once
// planner/evaluate/accuracy.json from what left-out runs show. Pure.

#include <vector>

#include "planner/evaluate/accuracy.hpp"
#include "reports/fit/fit.hpp"

namespace reports::fit {

// Time by the left-out rows, each dataset weighing 1. Memory by all rows that measured it, and by
// the verdicts of fit: its constants are not fitted, and no row is left out.
// REQUIRES: at least one dataset of two runs was left out.
planner::Accuracy accuracy_of(const std::vector<LeftOut>& left_out,
                              const std::vector<validation::Predicted>& rows);

// Share of the left-out rows within the stated interval, each dataset weighing 1: before any
// calibration, and after each of its runs in turn, that run not counted.
struct Coverage {
  double uncalibrated = 0, one_run = 0;
};
Coverage coverage_of(const std::vector<LeftOut>& left_out, const planner::Accuracy& accuracy);

// Variances of logarithmic errors between sites and within them, as the left-out rows show them.
struct Variances {
  double between = 0, within = 0;
};
Variances variances_of(const std::vector<LeftOut>& left_out);

std::string to_json_text(const planner::Accuracy& accuracy, std::string_view source);

}  // namespace reports::fit
