#pragma once
// Traces of executed steps, in the form of the simulator's (sim/engine/trace.hpp): both open beside
// each other. Times are measured, from the first action of any rank on. What a device itself
// recorded is a thread beside each stream's, kernel by kernel. Where a trace shows some of the
// micro-batches, it has the live bytes while the compute stream is at one of those. Pure but for
// the file; thread-safe.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/interpret/step_log.hpp"
#include "sim/program/trace_scope.hpp"

namespace exec {

enum class TraceDetail : std::uint8_t { block, op };

struct TraceOptions {
  TraceDetail detail = TraceDetail::block;
  program::TraceChoice choice{};       // micro-batches are counted from the step's first
};

// logs: of each rank, the same step.
core::Result<program::Trace> write_trace(const program::Program& program,
                                         const std::vector<StepLog>& logs,
                                         const TraceOptions& options);

// Where a run's trace goes.
struct TraceTarget {
  std::string file;
  TraceOptions options{};
  // Told what the trace shows, where something was left out that was not asked to be.
  std::function<void(const std::string& text)> told{};
};
// Ranks or micro-batches asked for that the program does not have; none without a target.
core::Problems trace_problems(const program::Program& program,
                              const std::optional<TraceTarget>& target);
core::Status write_trace_file(const program::Program& program, const std::vector<StepLog>& logs,
                              const TraceTarget& target);

}  // namespace exec
