#pragma once
// Step time in closed form: the routines of a class walked once on in-order streams, then the
// passes of the schedule. The walk lets communication hide behind computation exactly as far as
// the Program's events allow (buckets behind the last backward pass, ZeRO-3 gathers behind the
// layer before); micro-batches beyond the second are the period of the walk, times their number.
//
// Schedules, with m micro-batches:
//   none          m periods
//   naive         every stage's period in turn, m times; every message exposed
//   cut graph     the longer rank's periods, m times, and the messages of the rank that sends more:
//                 both wait for each other's values, which wires carry both ways at once
//   others        their passes and messages played (pipeline_play.hpp), each as long as in the
//                 period, and what follows a rank's last pass until its next step. Of more than
//                 three rounds of the pipeline the last one is repeated; without flush it is all,
//                 and where tied gradients join the ends of the pipeline each step, what the last
//                 rank waits there.
// Assumes: streams share nothing but what transfers hold of computing (cost/held_time.hpp), a last
// backward pass holds up the stages before it no more than others; waiting for peers hides none of
// a pass's own waiting for transfers. Not modelled: the engine's contention. O(calls + actions of
// the blocks + passes of three rounds). Pure; thread-safe.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/evaluate/candidate.hpp"
#include "planner/evaluate/pipeline_play.hpp"
#include "planner/strategy/strategy.hpp"
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
  std::int64_t message = 0;        // one boundary tensor to a neighbour
  std::int64_t next = 0;           // the same to the next stage (of the last one: to the first)
  std::int64_t sent = 0;           // all messages of m micro-batches
  std::vector<PassTimes> chunks;   // the period, of each of its chunks
  bool launch_bound = false;       // launch gaps are most of the kernels' time

  PassTimes passes() const;        // of all chunks

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
