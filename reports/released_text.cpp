#include "reports/released_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "reports/sensitivity.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::Plan;
using planner::Released;

std::string what_is_released(const Released& r) {
  switch (r.scope) {
    case Released::Scope::one: return "The best single change is";
    case Released::Scope::all_but_degrees: return "With the same degrees, the best is";
    case Released::Scope::all: break;
  }
  return "With nothing pinned, the best is";
}

// "9.3 % faster (11.2 s a step)", or what it needs where the pins allow nothing.
std::string gain_text(const Plan& plan, const Released& r) {
  const std::string needs =
      fmt::format("{} a step, {} per GPU, {} risk of running out of memory", to_text(r.step),
                  to_text(r.device), percent_text(r.out_of_memory));
  if (!plan.chosen) return "it fits: " + needs;
  const double ratio = plan.chosen->time.step / r.step;
  std::string text = fmt::format("{} ({})", speed_against(r.step, plan.chosen->time.step), needs);
  const double factor = planner::accuracy().tie_factor();
  if (ratio < factor && ratio > 1 / factor && within_risk(*plan.chosen, plan.max_risk))
    text += "; too little for a prediction to be sure of: a short run of both can tell";
  return text;
}

std::string line_of(const Plan& plan, const Released& r) {
  const std::string change = plan.chosen ? changed_keys(plan.chosen->strategy, *r.best)
                                         : planner::to_text(*r.best);
  return fmt::format("{} {}: {}.", what_is_released(r), change, gain_text(plan, r));
}

}  // namespace

bool is_own_configuration(const Plan& plan) {
  if (plan.released.empty() || plan.released.back().scope != Released::Scope::all) return false;
  const std::vector<std::string>& pinned = plan.released.back().keys;
  const auto is_pinned = [&](std::string_view key) {
    return std::ranges::find(pinned, key) != pinned.end();
  };
  const bool divides = plan.gpus == 1 || is_pinned("data") || is_pinned("tensor") ||
                       is_pinned("pipeline") || is_pinned("context");
  return divides && is_pinned("sharding") && is_pinned("checkpoint") &&
         (is_pinned("micro_batch") || is_pinned("grad_accum"));
}

std::vector<std::string> released_lines(const Plan& plan) {
  std::vector<std::string> lines;
  if (plan.released.empty()) return lines;
  const planner::Strategy* last = nullptr;  // a wider change that finds the same says nothing new
  for (const Released& r : plan.released) {
    const bool is_second = r.scope == Released::Scope::one && last != nullptr;
    if (!r.helps || is_second || (last != nullptr && *last == *r.best)) continue;
    lines.push_back(line_of(plan, r));
    last = &*r.best;
  }
  if (lines.empty())
    lines.push_back(plan.chosen ? "Nothing that the pins exclude is preferred to it."
                                : "Leaving out pins does not make it fit either.");
  return lines;
}

}  // namespace reports
