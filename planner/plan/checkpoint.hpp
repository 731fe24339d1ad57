#pragma once
// Checkpoints that share the links of a simulated step (checkpoint_traffic.hpp). Value types.

#include <optional>

#include "core/units.hpp"

namespace planner {

// A checkpoint that goes over the links of the simulation, from the hosts' memory.
struct CheckpointOptions {
  bool to_nodes = false;               // each rank's share to the host of the next node
  std::optional<core::BytesPerSecond> storage{};  // else to storage with this bandwidth for the job
};

// What a checkpoint takes and costs where it shares the links of the steps (CheckpointOptions).
struct CheckpointTraffic {
  bool to_nodes = false;
  std::optional<core::BytesPerSecond> storage{};
  core::Bytes bytes{};                 // of the job
  core::Seconds alone{};               // while no step runs
  core::Seconds behind{};              // while steps run
  core::Seconds delay{};               // by which the steps together end later
  // A step while it is on its way, where it takes longer than the steps that are played.
  std::optional<core::Seconds> step{};
};

}  // namespace planner
