#pragma once
// How an operator of a graph is divided over ranks, in words: for pages and for `explain`. Pure.

#include <string>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/split_report.hpp"
#include "reports/explanation.hpp"

namespace reports {

// "samples", "outputs", "inputs, whose sums are added", "columns that it finds".
std::string factor_text(models::ops::Factor factor, const std::string& kind);
// "samples: 23.1 us more", "-" where there is no other way.
std::string otherwise_text(const planner::DividedOperator& op);

// Of the chosen candidate; priced: as split_report has it. REQUIRES: it divides operators
// (Strategy::split above 1). Problems: the model's own.
core::Result<planner::SplitReport> split_report_of(const planner::Plan& plan,
                                                   std::string_view priced = {});

// Why the operator is divided as it is. Problems: nothing is divided, no such operator (all are
// named).
core::Result<Explanation> explain_split(const planner::Plan& plan, std::string_view name);

}  // namespace reports
