#pragma once
// What a plan takes in another framework than the one it was made for: a launch file may be written
// for any. Pure; thread-safe.

#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"

namespace reports::emit {

// A note that says so: the step and the memory that are predicted there, or that it would run out
// of memory. Empty: the launch file is for the plan's own framework.
// REQUIRES: launch_of writes the candidate for framework.
std::optional<std::string> predicted_elsewhere(const planner::Plan& plan,
                                               const planner::Candidate& candidate,
                                               std::string_view framework);

}  // namespace reports::emit
