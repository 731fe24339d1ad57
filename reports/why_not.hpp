#pragma once
// `planner explain why-not tensor=8 --plan plan.json`: the question of the plan asked again with
// the pin, and the best such plan beside the chosen one: what it costs in time, memory and risk, or
// why there is none. Searches; pure; thread-safe.

#include <string>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "planner/plan/plan.hpp"
#include "reports/text.hpp"

namespace reports {

struct WhyNot {
  std::vector<std::string> pins;       // "tensor=8", in the planner's own names
  planner::Candidate chosen;           // the plan's
  std::optional<planner::Candidate> nearest;
  std::string reason;                  // why there is no nearest; empty where there is one
};

// Pins as --pin takes them. What the plan itself was asked for with --pin and --forbid holds too,
// but for keys that `pins` name. Problems: a pin that cannot be read; a plan that chose nothing.
core::Result<WhyNot> why_not(const planner::Plan& plan, const std::vector<std::string>& pins);

// One sentence, then a table of both.
std::string why_not_text(const WhyNot& answer, TextStyle style);
std::string why_not_json(const WhyNot& answer);

}  // namespace reports
