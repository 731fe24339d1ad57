#pragma once
// Platform: what the ranks of a run work on. It makes their backends, refuses before anything
// starts what it cannot compute or hold, and says what it is. The host is one; a GPU is another,
// made by the binary that links it. Used by one run at a time; backend() from every rank's thread.

#include <memory>
#include <span>
#include <string_view>

#include "exec/interpret/backend.hpp"
#include "exec/interpret/step_log.hpp"
#include "exec/record/run_record.hpp"
#include "exec/run/environment.hpp"

namespace exec {

class Platform {
 public:
  virtual ~Platform() = default;

  virtual std::string_view name() const = 0;  // as --backend names it
  // Operators that it has no kernel for, memory that it does not have. Called once, first. here:
  // the ranks on this machine, ascending.
  virtual core::Problems problems(const program::Program& program, const planner::Job& job,
                                  std::span<const int> here) = 0;
  virtual std::unique_ptr<Backend> backend(const program::Program& program,
                                           const program::RankClass& rank_class, int rank) = 0;
  // After the run: what the device itself recorded of a rank's step that was looked into, by start;
  // nothing where it was not asked, or refused.
  virtual std::optional<std::vector<LoggedKernel>> kernels(int /*rank*/) { return std::nullopt; }
  // After a rank's steps: its GPU before and after them, in words; empty: nothing is known.
  virtual std::string device_states() { return ""; }
  // After the run, and after kernels(): device and environment.
  virtual void describe(RunRecord& record, RanksAre ranks) = 0;
};

Platform& host_platform();

// A problem for each operator that `computes` says no to; fix: what to do about those.
core::Problems kernel_problems(const program::Program& program, std::string_view backend,
                               bool (*computes)(const models::Operator&), std::string_view fix);

}  // namespace exec
