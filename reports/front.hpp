#pragma once
// The Pareto front of many questions about one job: of strategies on several numbers of GPUs, or on
// several machines, those that no other is as fast, as small and on as few GPUs as. Pure;
// thread-safe.

#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "reports/subjects_comparison.hpp"
#include "reports/text.hpp"

namespace reports {

// The chosen candidate and those of the plan's own front, each under the label.
std::vector<Subject> contenders_of(const planner::Plan& plan, const std::string& label);

// Those that none of the same model, samples and tokens beats: in step, device bytes of the worst
// rank and GPUs it is nowhere more and somewhere less. By job, then GPUs, then step. Of equals the
// first. O(n log n + n x the front of a job). REQUIRES: every one has a candidate.
std::vector<Subject> front_of(std::vector<Subject> contenders);

// A table of up to `most` lines, of one question each with at most half the memory of the line
// before; "" where the questions are about one number of GPUs.
std::string front_text(const std::vector<Subject>& front, std::size_t most, TextStyle style);

}  // namespace reports
