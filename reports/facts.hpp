#pragma once
// The laws of gradient exchange (C1 to C10) and the facts of memory (M1 to M16) that the tool
// stands on, each with its formula, the values of a plan put in, and the result for that plan.
// They are what textbooks and papers say: where the exact figure of a plan differs, the inputs name
// the field that holds it. Pure; thread-safe.

#include <span>
#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"
#include "reports/text.hpp"

namespace reports {

// Values of the symbols that the formulas use.
struct FactValues {
  double parameters = 0;  // Psi, also d: elements of the gradient
  double gpus = 1;        // K
  double servers = 2;     // M
  double layers = 1;      // N
  double hidden = 1, seq_len = 1;
  double lora_rank = 8;
  double micro_batch = 1;
  double live = 0, reserved = 0;                        // bytes, of the chosen candidate
  double step = 0, exposed = 0, communication = 0;      // seconds, of the chosen candidate
  double link = 0;                                      // bytes per second within the node
};

struct Fact {
  std::string_view name;     // "C4"
  std::string_view claim;    // what is said, in words
  std::string_view formula;
  std::string_view inputs;   // "Psi=model.parameters K=cluster.gpus": symbol and field of the plan
  std::string_view unit;     // "B", "elements", "fraction", ...
  std::string_view source;
  double (*value)(const FactValues&);
};

std::span<const Fact> facts();
const Fact* find_fact(std::string_view name);  // in either case: "c4"
// Symbols of the plan; without a chosen candidate those that need one are 0.
FactValues fact_values(const planner::Plan& plan, double servers);
// A line per fact.
std::string facts_text(TextStyle style);

}  // namespace reports
