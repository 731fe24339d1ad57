#pragma once
// run: executes a plan's candidate and measures it. Every rank of the plan is a thread here
// (communicator `local`), on the host's cores (backend `host`); the Program is checked before any
// rank starts. One call at a time per process is meaningful for times.

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/result.hpp"
#include "exec/record/run_record.hpp"
#include "planner/plan.hpp"

namespace exec {

struct RunOptions {
  std::string backend = "host";
  std::string communicator = "local";
  std::string data = "synthetic";      // or a path
  std::int64_t steps = 3;
  std::uint64_t seed = 1;
  std::optional<int> candidate;        // 0 or absent: the chosen one; n: the n-th alternative
  std::function<void(std::int64_t step, double loss)> progress;  // from rank 0's thread
};

// A rank failed while running: the first cause, once for all ranks.
class RunFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Problems: an unknown backend, communicator or candidate, a plan whose candidate cannot be lowered
// or exceeds the host's memory, unreadable data. Throws RunFailure when a rank fails.
core::Result<RunRecord> run(const planner::Plan& plan, const RunOptions& options);

}  // namespace exec
