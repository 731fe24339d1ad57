#pragma once
// What a step's actions took by their events beside what the device itself recorded of them. Pure.

#include <optional>
#include <vector>

#include "exec/interpret/step_log.hpp"
#include "exec/record/run_record.hpp"

namespace exec {

// Of one rank; empty where its device recorded nothing. An action's events enclose the launches of
// its kernels as well, so the difference of the two is what launching costs the device.
// O(n log n) of actions and kernels.
std::optional<MeasuredDeviceTimes> device_times(const program::Program& program,
                                                const std::vector<StepLog>& logs, int rank);

}  // namespace exec
