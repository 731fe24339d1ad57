#pragma once
// Traces of executed steps, in the form of the simulator's (sim/engine/trace.hpp): one process per
// rank, one thread per stream and one for the passes of the schedule, complete events that never
// overlap in a thread, a counter of live bytes by memory term. Times are measured, from the first
// action of any rank on. What a device itself recorded is a thread beside each stream's, kernel by
// kernel. Pure; thread-safe.

#include <string>
#include <vector>

#include "exec/interpret/step_log.hpp"

namespace exec {

enum class TraceDetail : std::uint8_t { block, op };

// logs: of each rank, the same step.
std::string trace_json(const program::Program& program, const std::vector<StepLog>& logs,
                       TraceDetail detail);

}  // namespace exec
