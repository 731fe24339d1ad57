#pragma once
// The verbs of `planner`, one file each: arguments in, exit code out.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/option_set.hpp"
#include "core/result.hpp"
#include "exec/record/run_record.hpp"
#include "planner/plan/plan.hpp"
#include "sim/program/trace_scope.hpp"

namespace cli {

// A step that is done; as exec::Progress.
struct StepProgress {
  std::int64_t step = 0;
  double loss = 0, learning_rate = 0, seconds = 0, tokens_per_second = 0;
  bool share = false;
  core::Bytes live{};
};

// Links that a run emulates; as exec::Paced.
struct EmulatedLinks {
  bool of_plan = true;
  core::BytesPerSecond bandwidth{};
  core::Seconds latency{};
};

// How a plan is to be run; as exec::RunOptions.
struct RunRequest {
  std::string plan_file;
  std::string backend = "host";
  std::string communicator = "local";
  // Or mpi, nccl: the library's, where the plan lets it choose.
  std::string collectives = "own";
  std::optional<std::string> hostfile;
  std::optional<EmulatedLinks> links;
  std::string data = "synthetic";
  std::int64_t steps = 3;
  std::uint64_t seed = 1;
  exec::TrainingWishes training;
  std::vector<std::string> training_words;  // its options, for who starts another binary
  std::optional<int> candidate;
  bool scale_down = false;             // the plan that a Runner gets is the small one already
  std::optional<std::string> checkpoint_dir, trace;
  std::int64_t checkpoint_every = 1;
  bool skip_damaged = false;           // of checkpoints: go on from the last one that is whole
  std::string graphs = "auto";         // on, off
  std::string attention = "auto";      // cudnn, own
  std::string gelu = "product";        // own
  std::string deterministic = "on";    // off
  std::optional<std::string> tuned_products;  // the file that keeps which algorithms are fastest
  std::string device_times = "events";  // cupti
  std::optional<int> device;           // the GPU of this process; nothing: the first
  bool rank_threads = false;           // over nccl: ranks are threads of one process
  bool nccl_windows = false;           // buffers are symmetric windows where NCCL has them
  std::string nccl;                    // the library's file; empty: as the loader finds it
  core::Seconds deadline{1800};        // of a step over NCCL
  bool trace_ops = false, quiet = false;
  program::TraceChoice trace_choice;
  std::vector<std::string> trace_words;  // its options, for who starts another binary
  std::function<void(const StepProgress&)> progress;
};
// Writes each step that is done as a line of standard error that begins so.
inline constexpr std::string_view kProgressStart = "step ";
std::function<void(const StepProgress&)> step_writer(std::int64_t steps);

// Bad input is Problems; a failure while running throws. Empty in `planner` itself, which hands
// such verbs to planner-exec beside it (docs/decisions/0002).
using Runner =
    std::function<core::Result<exec::RunRecord>(const planner::Plan&, const RunRequest&)>;

// How this host is to be calibrated, and what comes of it; as exec::calibrate_host.
// Empty in `planner` itself, as Runner is.
struct CalibrateRequest {
  int ranks = 1;
  core::Seconds budget{0.5};
  std::optional<std::string> points;
  std::function<void(const std::string& line)> progress;
};
struct HostCalibration {
  hw_profiles::Profile profile;
  std::string page;
};
using HostCalibrator = std::function<core::Result<HostCalibration>(const CalibrateRequest&)>;

int plan_verb(Arguments arguments);
int calibrate_host_verb(Arguments arguments, const HostCalibrator& calibrator, Arguments whole);
// `whole` is the command line of the process, for handing over.
int exec_verb(Arguments arguments, const Runner& runner, Arguments whole);
int simulate_verb(Arguments arguments);
int compare_verb(Arguments arguments);
int report_verb(Arguments arguments);
int emit_verb(Arguments arguments);
int import_verb(Arguments arguments);
int sweep_verb(Arguments arguments);
int min_gpus_verb(Arguments arguments);
int max_batch_verb(Arguments arguments);
int explain_verb(Arguments arguments, const Runner& runner, Arguments whole);
int models_verb(Arguments arguments);
int gpus_verb(Arguments arguments);
int doctor_verb(Arguments arguments);
int bench_verb(Arguments arguments);
int validate_verb(Arguments arguments);
int verify_verb(Arguments arguments);
int fit_verb(Arguments arguments);
int calibrate_verb(Arguments arguments);
// verbs: the words that may come first.
int completion_verb(Arguments arguments, std::span<const std::string_view> verbs);

// Replaces this process by the sibling binary `name` with the same arguments; comes back only when
// that cannot be, with the exit code after saying why.
int hand_over(std::string_view name, Arguments whole);

// The binary beside this one that has the backend which these words name: planner-exec-cuda for
// --backend cuda, else planner-exec. Empty: this one has it. runs: this one runs plans.
std::optional<std::string_view> other_binary(Arguments arguments, bool runs);

// `exec` with `--communicator NAME` among words that are not parsed yet: another binary may have
// to parse them.
bool asks_for_communicator(Arguments whole, std::string_view name);
// The plan that `exec` and its words name; empty where they cannot be parsed.
std::string plan_file_of(Arguments whole);

// The file of a plan, read and checked.
core::Result<planner::Plan> read_plan(const std::string& path);

// main() of both binaries.
int run_planner(int count, char** arguments, const Runner& runner,
                const HostCalibrator& calibrator = {});

}  // namespace cli
