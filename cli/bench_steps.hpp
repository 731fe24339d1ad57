#pragma once
// Measures the engine on whole steps: Llama 3.1 405B on up to 16,384 ranks, folded and unfolded,
// and how that grows with ranks and micro-batches. Seconds are those of one core.

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace cli {

struct StepFigure {
  std::int64_t ranks = 0, micro_batches = 0, played = 0;  // played: ranks that were not folded away
  std::uint64_t operations = 0;
  double seconds = 0;                  // folding, timetables and play; lowering stands apart
  double lowering_seconds = 0;
  std::int64_t peak_bytes = 0;         // of the process, resident
  double step_seconds = 0;             // what was predicted: the first step, from rest
};

// Ascending in what they take, so that each one's peak is its own.
core::Result<std::vector<StepFigure>> time_steps();

core::Json to_json(const StepFigure& figure);
std::string step_line(const StepFigure& figure);

// Seconds that this thread has had of a core.
double core_seconds();

}  // namespace cli
