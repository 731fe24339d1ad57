#pragma once
// Time of a step by the sweep (sim/engine): every wait of every rank class, where the closed form
// has an algebra. Pure; thread-safe.

#include <optional>

#include "planner/evaluate/candidate.hpp"
#include "sim/cost/machine.hpp"
#include "sim/engine/outcome.hpp"

namespace planner {

struct SweptTime {
  Time time;
  // Transfers of the critical rank that may meet those of another of its streams on a link: all
  // but the busiest stream's.
  core::Seconds beside{};
};

inline core::Seconds seconds(std::int64_t picoseconds) {
  return core::to_seconds(core::Picoseconds(picoseconds));
}

// The terms of a played step in the words of the plan.
Time time_of(const engine::StepTerms& terms, const cost::Machine& machine);

// Empty where a step has more operations than an answer may wait for (a few milliseconds): steps of
// thousands of micro-batches.
std::optional<SweptTime> swept_time(const program::Program& program, const cost::Machine& machine);

}  // namespace planner
