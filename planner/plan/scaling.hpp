#pragma once
// Scaling: a planned strategy with more or fewer data-parallel copies, the work of each copy
// unchanged (weak scaling), swept on the same machine [C7]. Pure; thread-safe.

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"

namespace planner {

struct ScalePoint {
  std::int64_t copies = 1, gpus = 1;
  Time time;
  double samples_per_second = 0;
  double speed_up = 0;                 // over one copy
  double efficiency = 0;               // speed_up / copies
};

// Points in the order of `copies`; speed-ups are over one copy, which is swept besides. A shard
// group that does not divide the copies becomes all of them; servers are at most the copies.
// Problems: a number of copies that cannot be expressed.
core::Result<std::vector<ScalePoint>> scaling(const Plan& plan, const Strategy& strategy,
                                              const std::vector<std::int64_t>& copies);

}  // namespace planner
