#pragma once
// One candidate as text: strategy and headline figures, a bar per memory term against the usable
// bytes, the communication table, the parts of a step. Pure; thread-safe.

#include <string>

#include "planner/candidate.hpp"
#include "reports/text.hpp"

namespace reports {

std::string candidate_text(const planner::Candidate& candidate, TextStyle style);

}  // namespace reports
