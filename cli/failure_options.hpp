#pragma once
// The options of `planner simulate` about a job that runs for days on parts that fail.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/option_set.hpp"
#include "core/result.hpp"
#include "planner/plan/goodput.hpp"

namespace cli {

// As typed; empty: not given.
struct FailureWords {
  std::vector<std::string> failures;
  std::optional<std::string> mtbf, save, storage, saves, save_every, detect, restart, spare_nodes,
      repair, horizon;

  // The options that were given, by name.
  std::vector<std::string> given() const;
};

void add_failure_options(OptionSet& options, FailureWords& words);

// Empty: nothing was asked. over_links: the simulation has links that checkpoints share, so that
// --storage and --saves are allowed without failures. Problems name their options.
std::optional<planner::FailureOptions> read_failures(const FailureWords& words, bool over_links,
                                                     core::Problems& problems);

// The checkpoint that goes over the links of the simulation; empty: none does.
std::optional<planner::CheckpointOptions> read_checkpoint(
    const FailureWords& words, const std::optional<planner::FailureOptions>& failures,
    core::Problems& problems);

}  // namespace cli
