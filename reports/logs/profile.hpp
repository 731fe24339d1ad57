#pragma once
// A profile of torch.profiler (Kineto's Chrome trace) as a training log: each "ProfilerStep#N" is a
// step; what the device did is summed over them. Pure; thread-safe.

#include <string>
#include <string_view>

#include "reports/logs/training_log.hpp"

namespace reports::logs {

// Whether the text is a JSON object with "traceEvents".
bool is_profile(std::string_view text);

// Problems: no JSON, no steps (the script must call prof.step()), durations that cannot be.
core::Result<TrainingLog> read_profile(std::string_view text, const std::string& name);

}  // namespace reports::logs
