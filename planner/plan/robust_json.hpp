#pragma once
// Internal: what slow ranks and links make of a plan's candidates, in plan/1. Thread-safe.

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "planner/plan/plan.hpp"

namespace planner {

core::Json robust_json(const Robust& robust);
// Problems go to the reader's: as many candidates as the plan has are needed.
Robust read_robust(core::JsonReader& reader, std::size_t candidates);

// {"probability", "slowdown", "link_share", "steps"}, of every kind.
core::Json random_json(const std::vector<RandomSlow>& random);

}  // namespace planner
