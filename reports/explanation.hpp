#pragma once
// Why a field of a plan has its value: the formula, the values put in, the source. The formulas are
// a table (formulas.cpp) whose keys in square brackets resolve in docs/references.md; inputs are
// read from the plan itself, so what is printed is what was computed with. Pure; thread-safe.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "planner/plan/plan.hpp"
#include "reports/memory_breakdown.hpp"
#include "reports/text.hpp"

namespace reports {

struct Formula {
  std::string_view field;    // "memory.weights"; '*' stands for any one part of the path
  std::string_view formula;
  std::string_view inputs;   // fields of the plan, separated by blanks
  std::string_view source;
};
std::span<const Formula> formulas();

struct Explanation {
  std::string field, value, formula, source;
  std::vector<std::pair<std::string, std::string>> inputs;
  core::Json exact{};  // the value as the plan file has it; a number for a law or fact
  std::string claim{};  // of a law or fact: what is said
  std::optional<Breakdown> parts{};  // of a memory term: lines that sum to it
  std::string no_parts{};            // why a memory term could not be taken apart
};

// field, one of:
//   a dotted path in the plan ("cluster.usable_bytes", "alternatives.0.time.step") or in its chosen
//   candidate ("memory.weights", "communication.gradients.all_reduce.wire_bytes_per_rank"; a group
//   of fields, "memory", lists what is in it);
//   an operator of a graph that ranks divide ("splits.fc6"): along what, and what else would cost;
//   a number of the GPU's profile ("gpu.memory_bandwidth"); the name of a rule of thumb;
//   a law or fact ("C4", "M10"; reports/facts.hpp), worked out for the plan and `servers`.
// An unknown one is a problem that names the nearest.
core::Result<Explanation> explain(const planner::Plan& plan, std::string_view field,
                                  double servers = 2);

std::string to_json_text(const Explanation& explanation);
std::string explanation_text(const Explanation& explanation, TextStyle style = {});

}  // namespace reports
