#pragma once
// Pictures in text for the glossary, made by the code that plans: who computes what when under a
// schedule, from its own list of passes; what each rank keeps under a kind of sharding, from a
// lowered program. Pure; thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/strategy/strategy.hpp"
#include "sim/program/schedule.hpp"

namespace reports {

// A pass at its time, in units of one forward pass of a chunk. A backward pass takes two units, one
// where it is split into input and weight gradients.
struct PlayedPass {
  program::Pass pass;
  std::int64_t start = 0, units = 1;
};
// The passes of each rank in its order, each as early as what it reads is there; messages are free.
// steps: of schedules that never drain.
std::vector<std::vector<PlayedPass>> played_passes(const planner::Strategy& strategy,
                                                   std::int64_t micro_batches,
                                                   std::int64_t steps = 1);

// "" where a word of this kind has none.
std::string picture_of(std::string_view kind, std::string_view word);

}  // namespace reports
