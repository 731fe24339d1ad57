#pragma once
// --price GPU=USD, and --objective cost over several machines: the cheapest of them is planned.

#include <string>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"

namespace cli {

// Sets the price of a GPU hour where one of `prices` names the profile's GPU: "H100=2.50", several
// with commas, or "2.50" of whatever is asked about. Problems: no number, no GPU of that name.
core::Status set_price(const std::vector<std::string>& prices, hw_profiles::Profile& profile);

// The plan of the machine with the least rent for a token, the others as its other_machines; what
// each costs is stated as an assumption. Problems: a machine without a price.
// REQUIRES: the same question of several machines.
core::Result<planner::Plan> cheapest_plan(const std::vector<planner::Request>& requests);

}  // namespace cli
