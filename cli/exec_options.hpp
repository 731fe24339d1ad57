#pragma once
// The options of `exec`, and the request that they make.

#include <optional>
#include <string>
#include <string_view>

#include "cli/option_set.hpp"
#include "cli/output.hpp"
#include "cli/step_trace.hpp"
#include "cli/training_options.hpp"
#include "cli/verbs.hpp"

namespace cli {

struct ExecOptions {
  std::string plan;
  std::optional<std::string> backend, communicator, data, steps, candidate;
  std::optional<std::string> checkpoint_dir, checkpoint_every, graphs, attention, gelu,
      deterministic, tuned_products, device_times, device, nccl, deadline;
  TrainingWords training;
  StepTraceWords trace;
  std::optional<std::string> collectives, hostfile, links;
  bool progress = false, scale_down = false, skip_damaged = false,
       rank_threads = false, nccl_windows = false;
};

void add_exec_options(OptionSet& set, ExecOptions& options, OutputOptions& output);

// Problems name the options that do not go together.
RunRequest request_of(const ExecOptions& options, const OutputOptions& output,
                      core::Problems& problems);

// `exec` with --rank-threads among words that are not parsed yet.
bool asks_for_rank_threads(Arguments whole);

}  // namespace cli
