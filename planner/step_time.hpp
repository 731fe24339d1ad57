#pragma once
// Step time in closed form: the routines of a class walked once on in-order streams, then the
// algebra of the schedule. The walk lets communication hide behind computation exactly as far as
// the Program's events allow (buckets behind the last backward pass, ZeRO-3 gathers behind the
// layer before); micro-batches beyond the second are the period of the walk, times their number.
//
// Schedules, with p stages, m micro-batches, slot = period of the slowest stage (derived; equal
// stages give the textbook bubbles (p-1)/(m+p-1)):
//   none          m slots
//   gpipe, 1f1b   m slots, and one of every other stage's (together m + p - 1 where stages are
//                 equal); under gpipe a slot is the slowest forward and the slowest backward pass,
//                 of whichever stages
//   naive         every stage's slot in turn, m times; every message exposed
//   cut graph     the longer rank's slots, m times, and the messages of the rank that sends more:
//                 both wait for each other's values, which wires carry both ways at once
//   others        m slots and the bubble of schedule_algebra.hpp, of the other stages' mean passes
// Messages, but for naive and cut graphs: message_waits() of schedule_algebra.hpp.
// Assumes: free overlap (streams share nothing), stages that wait for the slowest.
// Not modelled: the engine's contention. O(calls + actions of the blocks). Pure; thread-safe.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/candidate.hpp"
#include "planner/schedule_algebra.hpp"
#include "sim/cost/machine.hpp"
#include "sim/program/program.hpp"

namespace planner {

// What the algebra needs of one class, in picoseconds.
struct ClassTime {
  std::int64_t total = 0;          // m micro-batches and the update, without waiting for peers
  std::int64_t compute = 0;        // kernels of the forward and backward passes, m micro-batches
  std::int64_t optimizer = 0;      // kernels of the begin and end routines
  std::int64_t communication = 0;  // busy time of transfers, all streams
  std::int64_t period = 0;         // of one micro-batch in the steady state
  std::int64_t forward = 0;        // of it, the forward pass
  std::int64_t weight_gradient = 0;  // of it, weight gradients that are a pass of their own
  std::int64_t message = 0;        // one boundary tensor to a neighbour
  std::int64_t next = 0;           // the same to the next stage (of the last one: to the first)
  std::int64_t sent = 0;           // all messages of m micro-batches
  bool launch_bound = false;       // launch gaps are most of the kernels' time

  PassTimes passes() const {
    return {forward, period - forward - weight_gradient, weight_gradient};
  }
};

// micro_batches and samples: where they differ from the program's own (0: the program's).
struct StepShape {
  std::int64_t micro_batches = 0;
  std::int64_t samples = 0;
};

ClassTime class_time(const program::Program& program, const program::RankClass& rank_class,
                     const cost::Machine& machine, StepShape shape = {});

// REQUIRES: one ClassTime per class of the program, in its order.
Time compose(const program::Program& program, const std::vector<ClassTime>& classes,
             Schedule schedule);

Time step_time(const program::Program& program, const cost::Machine& machine, Schedule schedule,
               StepShape shape = {});
// The same on one or more machines, in their order; they share one walk.
std::vector<Time> step_times(const program::Program& program,
                             std::span<const cost::Machine* const> machines, Schedule schedule,
                             StepShape shape = {});

}  // namespace planner
