#pragma once
// The first lines of a plan: verdict, five figures, why. Text and page share them. Pure;
// thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace reports {

// What throughput counts: of models without a sequence a sample is a token.
std::string_view counted_in(const planner::Plan& plan);

struct HeadlineFigure {
  std::string name;                    // "memory"
  std::string value;                   // "18.3 GiB of 23.7 GiB per GPU"
  std::string note;                    // "90 % of runs between 11.9 s and 19.2 s"; may be empty
};
// step, speed, memory, risk, cost.
std::vector<HeadlineFigure> headline_figures(const planner::Plan& plan,
                                             const planner::Candidate& candidate);

// Why it was chosen, and what its unusual parts buy: sentences. REQUIRES: plan.chosen.
std::vector<std::string> reasons_of(const planner::Plan& plan);

}  // namespace reports
