#pragma once
// What would change the choice: worked out from the candidates that a plan holds, with nothing
// evaluated anew, so each sentence is a statement about those. Pure; thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace reports {

// Keys in which `to` differs from `from`, as "sharding=zero3, micro_batch=8". At most `most` keys.
std::string changed_keys(const planner::Strategy& from, const planner::Strategy& to,
                         std::size_t most = 5);

// "9.3 % faster", "as fast": of a slower step the time it takes more, of a faster one the time it
// saves, as shares of the other.
std::string speed_against(core::Seconds step, core::Seconds other);

// Step of a candidate on links that are `slower` times as slow (0.5: twice as fast). Communication
// that is hidden now stays hidden: (step - exposed) + max(0, slower x busy - hidden), with hidden =
// max(0, busy - exposed). Exact at 1; elsewhere an estimate that neither hides more nor less.
core::Seconds step_on_slower_links(const planner::Time& time, double slower);

// The slowdown of the links nearest to 1 (as a ratio) at which `other` becomes the faster, within
// [1/100, 100]; empty when there is none.
std::optional<double> link_flip(const planner::Time& chosen, const planner::Time& other);

// Sentences, most useful first; empty without a chosen candidate.
std::vector<std::string> what_would_change(const planner::Plan& plan);

// What each unusual part of the chosen strategy buys (Plan::earned), a sentence each.
std::vector<std::string> what_parts_earn(const planner::Plan& plan);

}  // namespace reports
