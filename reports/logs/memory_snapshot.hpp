#pragma once
// A snapshot of PyTorch's allocator (torch.cuda.memory._dump_snapshot, torchtitan's
// memory_snapshot, Megatron-LM's --record-memory-history) as a log without steps: what was
// allocated and reserved at most on the GPU that has the most memory in it. Pure; thread-safe.

#include <string>
#include <string_view>

#include "reports/logs/training_log.hpp"

namespace reports::logs {

// Peaks are those of the history that the snapshot holds, whose last moment is its own; one without
// a history tells what was reserved at its moment alone. Sizes of the history are rounded up as the
// allocator rounds them.
// Problems: no snapshot, sizes that cannot be, memory that was never reserved.
core::Result<TrainingLog> read_snapshot(std::string_view text, const std::string& name);

}  // namespace reports::logs
