#pragma once
// Where predictions of left-out runs are worst: runs of one dataset that wait for the same, with
// what is known of the cause (causes.json, written by hand). Pure.

#include <string>
#include <vector>

#include "reports/fit/fit.hpp"

namespace reports::fit {

struct WorstCluster {
  std::string dataset;
  planner::Regime regime{};
  std::size_t rows = 0;
  double mape = 0, bias = 0;
  std::string cause;                   // whole sentences; empty: not known
};

// Of at least kClusterRows runs each, the worst mean error first; at most `most`.
inline constexpr std::size_t kClusterRows = 4;
std::vector<WorstCluster> worst_clusters(const std::vector<LeftOut>& left_out, std::size_t most);

// What causes.json says of a cluster; empty: nothing.
std::string cause_of(std::string_view dataset, planner::Regime regime);

}  // namespace reports::fit
