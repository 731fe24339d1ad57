#pragma once
// Goodput: the share of time that makes progress when ranks fail now and then and everything since
// the last checkpoint is lost. Counts steps, not picoseconds: horizons are days.
//
// A cycle is `interval` steps and one save. Failures come at exponentially distributed times,
// during saves and restarts as well; after one the job restarts and repeats the cycle.
// Expected time of a cycle [daly]:
//   E = M e^(R/M) (e^((k t + d) / M) - 1)
// M mean time between failures of the whole job, t step, d save, R restart, k interval. Goodput is
// k t / E; the best k is found by search, near sqrt(2 d M) / t [young].
// Valid: independent failures, a restart that begins at once. Pure; thread-safe.

#include <cstdint>

#include "core/units.hpp"

namespace engine {

struct FailureModel {
  core::Seconds between{};             // failures of the whole job, on average; > 0
  core::Seconds step{};                // > 0
  core::Seconds save{};                // writing a checkpoint, during which nothing else happens
  core::Seconds restart{};             // from a failure until the first step runs again
};

// REQUIRES: interval >= 1.
double expected_goodput(const FailureModel& model, std::int64_t interval);
// Steps between checkpoints with the greatest expected goodput. O(log).
std::int64_t best_interval(const FailureModel& model);

struct GoodputRun {
  double goodput = 0;                  // time of steps kept / all time
  std::int64_t steps = 0;              // kept
  std::int64_t failures = 0, saves = 0;
  std::int64_t lost_steps = 0;         // begun, and done again
};
// Plays whole cycles until `horizon` is over. The same seed gives the same run. O(failures).
GoodputRun play_failures(const FailureModel& model, std::int64_t interval, core::Seconds horizon,
                         std::uint64_t seed);

}  // namespace engine
