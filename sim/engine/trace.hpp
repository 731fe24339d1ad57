#pragma once
// Traces: a played step for Perfetto and Chrome, as sim/program/trace_event.hpp has it: a slice per
// block of actions or per action, a message from each send to its receive where both ranks are
// shown, a counter of live bytes by memory term. Where a trace shows some of the micro-batches
// (trace_scope.hpp), it has each change of the live bytes in those, and of the changes between them
// the last one. The same record gives the same bytes. Pure; thread-safe.

#include <cstddef>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "sim/engine/outcome.hpp"
#include "sim/engine/scene.hpp"
#include "sim/program/trace_scope.hpp"

namespace engine {

enum class TraceDetail : std::uint8_t { block, op };

struct TraceOptions {
  TraceDetail detail = TraceDetail::block;
  program::TraceChoice choice{};
};

// record: of the first step, in the order of time (EngineOptions::record). REQUIRES: the scene
// keeps parts.
core::Result<program::Trace> write_trace(const Scene& scene, const std::vector<Played>& record,
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
