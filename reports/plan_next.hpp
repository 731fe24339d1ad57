#pragma once
// What a reader of a plan types next. Pure; thread-safe.

#include <string>

#include "planner/plan/plan.hpp"
#include "reports/plan_text.hpp"

namespace reports {

// Only plans of `native` are executed; those of other frameworks are emitted, where they can be.
// Empty: nothing was chosen.
std::string plan_next_text(const planner::Plan& plan, const PlanTextOptions& options);

// How a row of the table of other frameworks becomes a file that its framework starts from; empty
// where none does.
std::string launch_text(const planner::Plan& plan, TextStyle style);

}  // namespace reports
