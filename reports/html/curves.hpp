#pragma once
// What a plan's own job says along one axis, worked out anew with the plan's machine: its strategy
// with checkpoints every K layers, and with more or fewer data-parallel copies. Pure; thread-safe.

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"
#include "planner/plan/scaling.hpp"

namespace reports::html {

struct CheckpointPoint {
  std::int64_t every = 0;              // layers; 0: no checkpoint
  core::Bytes activations{}, live{}, device{};
  core::Seconds step{};
};
struct CheckpointCurve {
  planner::Strategy strategy;          // that was varied
  std::vector<CheckpointPoint> points;
};
// The chosen strategy with checkpoint_every 1, 2, ... up to the layers of its longest stage (at
// most 24 of them), and without. A schedule that takes no checkpoints is played as 1f1b. No points
// where it does not train. Problems: the model's own.
core::Result<CheckpointCurve> checkpoint_curve(const planner::Plan& plan);

// The chosen strategy with 1, 2, 4, ... copies, up to twice its own, and its own.
core::Result<std::vector<planner::ScalePoint>> scaling_curve(const planner::Plan& plan);

}  // namespace reports::html
