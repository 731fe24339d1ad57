#pragma once
// Internal: the times of checkpoints from a restart on, in seconds (goodput.hpp).

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/engine/goodput.hpp"

namespace engine {

struct CheckpointCycle {
  CheckpointCycle(const FailureModel& m, std::int64_t interval)
      : work(static_cast<double>(interval) * m.step.value()),
        next(m.save.value() + std::max(work, m.behind.value())),
        first(work + m.save.value() + m.behind.value()),
        steps(interval), step(m.step.value()), save(m.save.value()) {}

  double work;                         // of the steps between two checkpoints
  double next;                         // from one complete checkpoint to the next
  double first;                        // from a restart to its first complete checkpoint
  std::int64_t steps;
  double step, save;

  // Checkpoints that are complete so long after a restart.
  double complete(double after) const {
    return after < first ? 0 : 1 + std::floor((after - first) / next);
  }
  // Steps done by then, those of complete checkpoints included.
  double done(double after) const {
    if (after < work + save) return std::min(static_cast<double>(steps), std::floor(after / step));
    const double cycles = 1 + std::floor((after - work - save) / next);
    const double since = after - work - save - (cycles - 1) * next;
    return cycles * static_cast<double>(steps) +
           std::min(static_cast<double>(steps), std::floor(since / step));
  }
  // How long it takes from a restart until so many checkpoints are complete.
  double time_of(double checkpoints) const { return first + (checkpoints - 1) * next; }
};

}  // namespace engine
