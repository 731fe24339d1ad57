#pragma once
// Questions to the planner, and their answers under pins.

#include <initializer_list>
#include <string>
#include <string_view>

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search/search.hpp"
#include "tests/catch.hpp"

namespace planner_test {

inline planner::Request question(const std::string& model, std::int64_t gpus,
                                const std::string& gpu) {
  planner::Request r;
  r.model = models::find_model(model).value();
  r.gpus = gpus;
  r.profile = hw_profiles::find_profile(gpu).value();
  return r;
}

inline void use_framework(planner::Request& r, const std::string& framework) {
  REQUIRE(hw_profiles::use_framework(r.profile, framework, "test").ok());
  r.job.framework = framework;
  r.job.recipe = r.profile.framework.recipe;
}

inline planner::Plan pinned_plan(planner::Request r,
                                 std::initializer_list<std::string_view> pins = {}) {
  for (std::string_view pin : pins) REQUIRE(r.constraints.pin(pin).ok());
  core::Result<planner::Plan> plan = planner::make_plan(r);
  if (!plan.ok()) FAIL(core::to_text(plan.problems()));
  return std::move(plan).value();
}

}  // namespace planner_test
