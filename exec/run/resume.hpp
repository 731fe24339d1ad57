#pragma once
// resume: the folder that a run keeps its states in, and goes on from. Collective where ranks are
// processes.

#include <optional>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/interpret/data_source.hpp"
#include "exec/run/run.hpp"

namespace exec {

// What a run must not change when it goes on.
TrainedOn trained_on(const planner::Plan& plan, const planner::Strategy& strategy,
                     const RunOptions& options, const DataSource& data);

// Nothing where none is asked for. Problems: those of CheckpointFolder, no steps left to run.
core::Result<std::optional<CheckpointFolder>> open_checkpoints(const RunOptions& options,
                                                               const TrainedOn& what, int ranks);

}  // namespace exec
