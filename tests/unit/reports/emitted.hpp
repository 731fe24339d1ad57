#pragma once
// Launch files of the sample plan with another model, changed.

#include <functional>
#include <string>

#include "reports/emit/emit.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

namespace reports_test {

using planner::Plan;
using planner::Sharding;
using planner::Strategy;
using Change = std::function<void(Plan&, Strategy&)>;

inline core::Result<reports::emit::Launch> emitted(const char* model, const char* framework,
                                                   const Change& change = {}) {
  Plan plan = sample_plan();
  plan.model = models::find_model(model).value();
  planner::Candidate c = *plan.chosen;
  if (change) change(plan, c.strategy);
  return reports::emit::launch_of(plan, c, framework);
}

// Whether the framework refuses it, and says both words.
inline bool is_refused(const char* model, const char* framework, const Change& change,
                       const char* found, const char* fix) {
  const auto launch = emitted(model, framework, change);
  if (launch.ok()) return false;
  const std::string text = core::to_text(launch.problems());
  INFO(text);
  CHECK(has(text, found));
  CHECK(has(text, fix));
  return has(text, found) && has(text, fix);
}

inline void fully_sharded(Plan&, Strategy& s) {
  s.tensor = 1;
  s.data = s.shard_group = 8;
  s.sharding = Sharding::zero3;
}

}  // namespace reports_test
