#pragma once
// Time of a step by the sweep (sim/engine): every wait of every rank class, where the closed form
// has an algebra. Pure; thread-safe.

#include <optional>

#include "planner/candidate.hpp"
#include "sim/cost/machine.hpp"
#include "sim/engine/outcome.hpp"

namespace planner {

// The terms of a played step in the words of the plan.
Time time_of(const engine::StepTerms& terms, const cost::Machine& machine);

// Empty where a step has more operations than an answer may wait for (a few milliseconds): steps of
// thousands of micro-batches.
std::optional<Time> swept_time(const program::Program& program, const cost::Machine& machine);

}  // namespace planner
