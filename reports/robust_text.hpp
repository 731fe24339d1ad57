#pragma once
// What slow ranks and weak links cost a plan, in sentences. Pure; thread-safe.

#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace reports {

// "each rank is 1.2 times slower with 1.0 % probability": one kind of random trouble.
std::string trouble_text(const planner::RandomSlow& kind);

// Why the choice is robust, and what one slow rank or link costs it and the first alternative.
// Empty where the plan was not asked to be.
std::vector<std::string> robust_lines(const planner::Plan& plan);

}  // namespace reports
