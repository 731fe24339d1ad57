#pragma once
// Internal: what finalists try beside the space of the search: values of keys that would make the
// space many times as large, or that the closed form does not describe. Pure; thread-safe.

#include <vector>

#include "planner/evaluate.hpp"
#include "planner/strategy.hpp"

namespace planner {

// The strategy with one key changed (and what follows from it: zb_v has two chunks), each as often
// as its values make a difference. Not all of them hold (strategy_problems); stages are auto where
// the change divides them anew. strategy: resolved.
std::vector<Strategy> variants(const Strategy& strategy, const Question& question);

}  // namespace planner
