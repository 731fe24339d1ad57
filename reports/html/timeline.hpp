#pragma once
// The timeline of a planned step: played by the engine, one rank per stage, its streams as lanes.
// Slices are blocks of actions where that stays readable, else whole passes of the schedule. Pure;
// thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"

namespace reports::html {

struct Lane {
  int rank = 0;
  std::string place;   // "rank 0, stage 0"
  std::string stream;  // "compute"
};
struct Slice {
  std::size_t lane = 0;
  std::int64_t start = 0, duration = 0;  // nanoseconds, from the start of the step
  std::size_t name = 0, kind = 0;        // indices below
  std::int64_t micro_batch = -1, layer = -1;
};
struct Timeline {
  std::vector<Lane> lanes;
  std::vector<std::string> names, kinds;
  std::vector<Slice> slices;           // by lane, then start
  bool passes = false;                 // compute lanes show passes, not blocks
  std::size_t ranks = 0;               // of the job
};

// More slices than this make the page heavy: then passes are shown.
inline constexpr std::size_t kMostSlices = 60'000;

// Of the chosen candidate. Problems: there is none, or its step is too long to record.
core::Result<Timeline> timeline_of(const planner::Plan& plan);

}  // namespace reports::html
