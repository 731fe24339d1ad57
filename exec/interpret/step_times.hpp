#pragma once
// What a step's time went into, from when each of its actions ran: for backends that work later
// than they are told to, where the issuing thread cannot see it. Pure.

#include "exec/interpret/step_log.hpp"
#include "sim/program/program.hpp"

namespace exec {

// Seconds of one step on the compute stream, by what it did. The rest of the step is idle time.
struct StepTimes {
  double step = 0, compute = 0, exposed_communication = 0, pipeline_wait = 0, optimizer = 0;
};

// Compute and optimizer: their actions on the compute stream. Exposed communication: transfers on
// that stream, and the moments when it idles while the gradient or the parameter stream works;
// pipeline_wait: when it idles while a message is sent or received and neither of those works. In
// O(n log n) of the actions. `step` stays 0.
StepTimes times_of(const program::RankClass& rank_class, const StepLog& log);

}  // namespace exec
