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

#include <array>
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

// The passes and messages of schedules, each behind what it waits for. Which order that is does not
// depend on how long they take: recorded once, it is played with any times.
class RecordedPasses {
 public:
  // O(passes). REQUIRES: sound schedules of one pipeline, in the order of its ranks.
  explicit RecordedPasses(std::span<const program::RankSchedule> ranks);

  // When each rank begins and ends. chunks: the times of the chunks of rank 0, then of rank 1, and
  // so on. links: how long a message from each rank to the next takes (from the last rank: to the
  // first). O(passes), some 30 instructions each.
  std::vector<PassSpan> spans(std::span<const PassTimes> chunks,
                              std::span<const std::int64_t> links) const;

 private:
  friend class PassRecorder;
  // The index of an instant. That of kStart is time 0; what kNowhere is set to is never read.
  using Instant = std::uint32_t;
  static constexpr Instant kStart = 0, kNowhere = 1;
  // A pass or a message: begins when all of `after` have passed, takes the duration of index `took`
  // (of each chunk in turn its forward pass, input gradients, weight gradients and both of these;
  // then the links; then none), and ends no sooner than `until`.
  struct Event {
    std::array<Instant, 4> after{};
    Instant until = kStart;
    Instant begins = kNowhere;         // set to when it begins
    std::array<Instant, 4> ends{kNowhere, kNowhere, kNowhere, kNowhere};  // to when it has ended
    std::uint32_t took = 0;
  };

  std::vector<Event> events_;
  std::size_t instants_ = 2;
  std::size_t chunks_ = 1;             // of a rank
  std::vector<Instant> began_, now_;   // by rank
};

// The same of schedules that are played once.
std::vector<PassSpan> played_spans(std::span<const program::RankSchedule> ranks,
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
Idle played_idle(const std::vector<program::RankSchedule>& ranks, const PassTimes& chunk,
                 std::int64_t message = 0);

}  // namespace planner
