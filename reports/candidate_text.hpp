#pragma once
// One candidate as text: headline figures, a bar per memory term against the usable bytes, the
// communication table, the parts of a step. Blocks stand side by side where the style is wide
// enough. Pure; thread-safe.

#include <string>

#include "planner/candidate.hpp"
#include "reports/text.hpp"

namespace reports {

// "1.32 s a step (1.16 s to 1.48 s), 397 K tokens/s, mfu 51.5 %, 48.0 GiB a GPU".
// counted: what a second makes of, "tokens" or "samples".
std::string headline_text(const planner::Candidate& candidate, std::string_view counted);
// Memory, stages where there are several, communication and time.
std::string candidate_text(const planner::Candidate& candidate, TextStyle style);

}  // namespace reports
