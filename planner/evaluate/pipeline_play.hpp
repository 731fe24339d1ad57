#pragma once
// The passes of a pipeline's ranks in their schedules' order, and the messages between them: what
// the algebra of schedule_algebra.hpp says of equal ranks, for any. Integer picoseconds; pure;
// thread-safe.
//
// A pass begins when its rank is free and its input has come; whole backward passes take input and
// weight gradients together. A rank sends one message at a time and receives one at a time, in the
// order of its passes, each kind (activations, gradients) into one place, which is free once the
// pass of the message before has begun; the arms of a V apart. A pass waits until what its chunk
// sent of the same kind before is gone (under gpipe it ends no sooner). As lowered
// (lowering/pipeline.cpp).

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/schedule.hpp"

namespace planner {

struct PassTimes {
  std::int64_t forward = 0, input_gradient = 0, weight_gradient = 0;  // picoseconds
  std::int64_t sum() const { return forward + input_gradient + weight_gradient; }
};

// From the start of the step: when a rank begins its first pass, and when it has done its last.
struct PassSpan {
  std::int64_t begin = 0, end = 0;
};

// chunks: of each rank in turn, what each of its chunks takes. links: a message from each rank to
// the next, of the last to the first. O(passes). REQUIRES: sound schedules of one pipeline, in the
// order of its ranks.
std::vector<PassSpan> played_spans(std::span<const program::Schedule> ranks,
                                   std::span<const PassTimes> chunks,
                                   std::span<const std::int64_t> links);

// Where all ranks wait for each other after their last passes, as for a norm of all gradients: they
// all begin the next step when the last one is done.
void join_all(std::span<PassSpan> ranks);

struct Idle {
  std::int64_t makespan = 0;           // of a step that begins and ends with all ranks at rest
  std::int64_t period = 0;             // of the rank with most idle time, step after step
};

// The same of equal ranks and chunks, and of equal links.
Idle played_idle(const std::vector<program::Schedule>& ranks, const PassTimes& chunk,
                 std::int64_t message = 0);

}  // namespace planner
