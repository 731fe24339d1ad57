#pragma once
// What each rank leaves behind, and the record that all of them make. Values.

#include <vector>

#include "exec/communicator/processes.hpp"
#include "exec/communicator/statistics.hpp"
#include "exec/interpret/interpreter.hpp"
#include "exec/record/run_record.hpp"
#include "sim/program/replay.hpp"

namespace exec {

struct RankReport {
  program::TermBytes terms{}, peaks{};
  core::Bytes live{}, reserved{};
  MemoryBeside beside;
  CommunicatorStatistics traffic;      // of the steps that were timed
  std::vector<StepTimes> times;        // of the steps of this run
  std::vector<double> loss;            // of all steps; empty: not computed here
  std::vector<SentTo> sent;            // to other processes, in this run
  std::optional<host::LossScaleState> loss_scale;
  KeptSteps kept;                      // of a device
  Staleness staleness;                 // no pushes: not an asynchronous server
  std::string host;                    // where it ran; empty: threads of one process
  std::string device_states;           // Platform::device_states
};

// Fills losses, memory, communication and time. reports: by rank; steps: all that lie behind;
// draining: program::RankSchedule::draining_steps(). A step that all ranks begin together lasts
// until the last of them has done its part.
void fill_measured(RunRecord& record, const std::vector<RankReport>& reports, int named_rank,
                   std::int64_t steps, bool together, std::int64_t draining);

}  // namespace exec
