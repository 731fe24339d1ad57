#pragma once
// A plan as a page of text: the recommendation first, then the question, the candidates, the chosen
// one's memory, communication and time, what was assumed, what would change the choice, what was
// rejected and how to make it fit, the same job on other machines, and the rules of thumb printed
// beside. Pure; thread-safe.

#include <string>

#include "planner/plan/plan.hpp"
#include "reports/text.hpp"

namespace reports {

inline constexpr int kShortLines = 60;

struct PlanTextOptions {
  TextStyle style{};
  int candidate = 0;          // 0: the chosen; n: the n-th alternative, from 1
  std::size_t alternatives = 5;  // rows of each table at most
  // Everything; else what decides, in at most kShortLines lines of 80 columns.
  bool full = false;
  std::string file{};         // where the plan was written; empty: nowhere
};

// The whole page, newline at the end. A plan without a feasible strategy says so and what came
// nearest. REQUIRES: 0 <= candidate <= plan.alternatives.size().
std::string plan_text(const planner::Plan& plan, const PlanTextOptions& options);

// One sentence: why no strategy is feasible, and the nearest fix.
std::string why_infeasible(const planner::Plan& plan);

}  // namespace reports
