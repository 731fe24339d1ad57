#pragma once
// run: executes a plan's candidate and measures it. Every rank of the plan is a thread here
// (communicator `local`), on the host's cores or on what else a Platform offers, or a process that
// makes the same call (`processes`); the Program is checked before any rank starts. One call at a
// time per process is meaningful for times.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/result.hpp"
#include "exec/checkpoint/checkpoint.hpp"
#include "exec/communicator/processes.hpp"
#include "exec/record/run_record.hpp"
#include "exec/run/paced.hpp"
#include "exec/run/platform.hpp"
#include "exec/run/trace.hpp"
#include "exec/training/schedule.hpp"
#include "planner/plan/plan.hpp"

namespace exec {

// A step that is done, as the rank that computes the loss saw it.
struct Progress {
  std::int64_t step = 0;               // from 0
  double loss = 0, learning_rate = 0, seconds = 0,
         tokens_per_second = 0;        // tokens: samples where there is no sequence
  bool share = false;                  // the loss is of one data rank's samples, of several
  core::Bytes live{};                  // peak of that rank
};

// Lives while a write must not be cut short by a signal.
class Held {
 public:
  virtual ~Held() = default;
};

// Whether a device keeps a step and is given it whole again (CUDA graphs). automatic: where the
// plan predicts that the host cannot issue kernels fast enough.
enum class Graphs : std::uint8_t { automatic, on, off };

struct RunOptions {
  std::string backend = "host";
  std::string communicator = "local";
  Processes* processes = nullptr;      // null: ranks are threads of this process
  std::optional<Paced> links;          // of ranks that are threads; nothing: as fast as memory
  Platform* platform = nullptr;        // that `backend` names; null: the host
  std::string data = "synthetic";      // or a path
  std::int64_t steps = 3;
  std::uint64_t seed = 1;
  TrainingWishes training;             // of the optimizer and its learning rate
  std::optional<int> candidate;        // 0 or absent: the chosen one; n: the n-th alternative
  // Where states are kept and found again; steps counts those that lie behind as well.
  std::optional<std::string> checkpoint_dir;
  std::int64_t checkpoint_every = 1;   // steps; the last one always
  SetAside set_aside;                  // of damaged steps; nothing: they are refused
  Graphs graphs = Graphs::automatic;   // of a backend apart from the host
  std::optional<TraceTarget> trace;    // of the last step
  std::function<void(const Progress&)> progress;  // from one rank's thread
  std::function<std::unique_ptr<Held>()> hold_signals;
};

// A rank failed while running: the first cause, once for all ranks.
class RunFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// With processes, rank 0's record is the whole run's, and so are everybody's problems.
// Problems: an unknown backend, communicator or candidate, a plan whose candidate cannot be lowered
// or exceeds the host's memory, unreadable data. Throws RunFailure when a rank fails.
core::Result<RunRecord> run(const planner::Plan& plan, const RunOptions& options);

}  // namespace exec
