#pragma once
// Execution traces of `planner simulate`: written from a plan, or played in its place.

#include <optional>
#include <string>

#include "cli/output.hpp"
#include "cli/plan_options.hpp"
#include "cli/process.hpp"
#include "cli/trace_files.hpp"
#include "planner/plan/simulate.hpp"

namespace cli {

struct ChakraWords {
  std::optional<std::string> folder, ranks;
};
struct TraceWords {
  PlanOptions machine;                 // of it the machine's options alone
  std::optional<std::string> groups;
};
void add_chakra_options(OptionSet& set, ChakraWords& words);
void add_trace_options(OptionSet& set, TraceWords& words);

// What is about traces, given beside a plan.
void refuse_beside_plan(const TraceWords& words, core::Problems& problems);

// The verb, where PLAN names traces. problems: found so far.
int simulate_traces(const std::string& path, const TraceWords& words, const OutputOptions& output,
                    core::Problems problems);

// The folder of --chakra while it is written: complete, or as it was. A signal meanwhile ends the
// process when the folder is gone.
class ChakraFolder {
 public:
  ChakraFolder(const ChakraWords& words, bool quiet) : words_(words), progress_(quiet) {}
  // Sets what `options` ask of the simulation. Problems: a folder that cannot be, ranks that are
  // no numbers, flows.
  void open(planner::SimulateOptions& options, core::Problems& problems);
  core::Status commit(const engine::ChakraGroups& groups);

 private:
  const ChakraWords& words_;
  ProgressLine progress_;
  std::optional<WriteInProgress> whole_;  // outlives the folder
  std::optional<core::NewFolder> folder_;
};

}  // namespace cli
