#pragma once
// Options of a trace of a step, simulated or run: the file, its format and what of the step it
// shows.

#include <optional>
#include <string>
#include <vector>

#include "cli/option_set.hpp"
#include "core/result.hpp"
#include "sim/program/trace_scope.hpp"

namespace cli {

struct StepTraceWords {
  std::optional<std::string> file, format, detail, ranks, micro_batches;
  // Names of those given, for a verb that has to refuse them.
  std::vector<std::string> given() const;
  // Those given as a command line has them: "--trace", "step.json", ...
  std::vector<std::string> words() const;
};

// what: "write a trace of the step".
void add_step_trace_options(OptionSet& set, StepTraceWords& words, std::string_view what);

struct StepTrace {
  program::TraceChoice choice;
  bool every_action = false;           // slices are actions, not blocks of them
};
// Empty without --trace. Problems: wrong words, or a file that cannot be written.
std::optional<StepTrace> read_step_trace(const StepTraceWords& words, core::Problems& problems);

}  // namespace cli
