#pragma once
// What would change a configuration that the user pinned: the best single change, the best with the
// same degrees, the best with nothing pinned (planner/search/released.hpp). Pure.

#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "reports/text.hpp"

namespace reports {

// Whether the pins say what makes a configuration one's own: a degree (where there is more than one
// GPU), the sharding, the recomputation and the batch. Other keys may be left to the planner.
bool is_own_configuration(const planner::Plan& plan);

// "The best single change is sharding=zero1: 9.3 % faster (11.2 s a step, 14 GiB, 0.0 % risk of
// running out of memory)." One sentence a change that helps, or that none does; empty where nothing
// is pinned.
std::vector<std::string> released_lines(const planner::Plan& plan);

}  // namespace reports
