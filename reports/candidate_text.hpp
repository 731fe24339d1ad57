#pragma once
// One candidate as text: a bar per memory term against the usable bytes, the
// communication table, the parts of a step. Blocks stand side by side where the style is wide
// enough. Pure; thread-safe.

#include <string>

#include "planner/evaluate/candidate.hpp"
#include "reports/text.hpp"

namespace reports {

// Memory by term and the parts of the step, a sentence each, without what is little.
std::string short_candidate_text(const planner::Candidate& candidate, TextStyle style);
// Memory, stages where there are several, communication and time.
std::string candidate_text(const planner::Candidate& candidate, TextStyle style);

}  // namespace reports
