#pragma once
// Checkpoints over the links that the steps use: how long one takes while steps run, and what it
// costs them. Steps are played with the checkpoint setting out at their start, and without it
// (engine::Writes). One that outlasts the steps played goes on as in the last of them. Bytes come
// from the memory of hosts: what copying to there costs is not in it. Pure; thread-safe.

#include <optional>

#include "core/json.hpp"
#include "core/units.hpp"
#include "planner/plan/simulate.hpp"

namespace planner {

// REQUIRES: options with flows and a checkpoint, and no problems of either.
CheckpointTraffic checkpoint_traffic(const program::Program& program, const cost::Machine& machine,
                                     const SimulateOptions& options);

// Why a checkpoint cannot go over these links.
core::Problems checkpoint_problems(const Plan& plan, const SimulateOptions& options);

core::Json checkpoint_json(const CheckpointTraffic& traffic);

}  // namespace planner
