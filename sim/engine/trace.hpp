#pragma once
// Traces: a played step in the Trace Event Format of Chrome, which Perfetto reads. One process per
// rank, one thread per stream and one for the passes of the schedule; a slice per block of actions
// or per action, complete events ("X") that never overlap in a thread; a flow from each send to its
// receive; a counter of live bytes by memory term. Times are microseconds with six decimals, which
// are the engine's picoseconds exactly. The same record gives the same bytes. Pure; thread-safe.

#include <cstddef>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "sim/engine/outcome.hpp"
#include "sim/engine/scene.hpp"

namespace engine {

enum class TraceDetail : std::uint8_t { block, op };

struct TraceOptions {
  TraceDetail detail = TraceDetail::block;
  // More ranks than this are written as one per fold: the fold's lowest.
  int most_ranks = 64;
  // More slices are refused, before any is written (viewers give up at about as many).
  std::size_t most_slices = 4'000'000;
};

// record: of the first step, in the order of time (EngineOptions::record). REQUIRES: the scene
// keeps parts.
core::Result<std::string> trace_json(const Scene& scene, const std::vector<Played>& record,
                                     const TraceOptions& options = {});

// Live bytes of an actor over the first step.
struct MemoryPeak {
  core::Bytes live{};
  std::int64_t time = 0;               // picoseconds: when it is first reached
  program::Call where{program::kNone, 0, 0};
};
// REQUIRES: as above; the actor's part of the record may stand alone.
MemoryPeak memory_peak(const Scene& scene, std::uint32_t actor, const std::vector<Played>& record);

}  // namespace engine
