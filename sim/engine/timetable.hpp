#pragma once
// Timetable: a rank class as an evaluator plays it. Every routine becomes a straight list of
// operations with their durations; actions of one stream that no event interrupts are one
// operation, across blocks and layers of the same routine. What a wait or a signal names is
// resolved down to the micro-batch. O(calls x actions) once per class and place; afterwards a step
// is played from these lists alone.
//
// Immutable after building; thread-safe to read. Keeps a reference to its class.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cost/action.hpp"
#include "sim/program/program.hpp"

namespace engine {

inline constexpr std::uint32_t kAbsent = 0xffffffff;
// Waits of one operation; an action with more is preceded by operations that only wait.
inline constexpr int kMaxWaits = 3;

// An instance of an event: base + (micro_batch + shift) mod slots.
struct Instance {
  std::uint32_t base = 0;
  std::uint16_t slots = 1;
  std::int16_t shift = 0;
  std::uint32_t at(std::int64_t micro_batch) const {
    if (slots == 1) return base;
    const std::int64_t slot = (micro_batch + shift) % slots;
    return base + static_cast<std::uint32_t>(slot < 0 ? slot + slots : slot);
  }
};

// What an operation's time is accounted as.
enum class Work : std::uint8_t { none, compute, optimizer, transfer };

struct Operation {
  std::int64_t duration = 0;           // picoseconds
  std::uint32_t first_wait = 0;        // index into waits
  std::uint32_t signal = kAbsent;      // index into signals
  std::uint32_t first_part = 0, last_part = 0;
  std::uint32_t kernels = 0;
  std::int64_t transfer_elements = 0;  // that a collective or message is about; of servers, a part
  std::int64_t beside_wire = 0;        // of a transfer's duration, picoseconds
  std::uint16_t point = program::kNone;  // where it meets others (MeetingPoint)
  std::uint8_t wait_count = 0;
  program::Stream stream{};
  Work work{};
  bool skip_first = false;             // not issued in micro-batch 0
};

// An action inside an operation: begins `offset` after it.
struct Part {
  program::Call call{};                // its micro-batch is the pass's
  std::uint32_t action = 0;
  std::int64_t offset = 0, duration = 0;
};

// Where operations meet those of other ranks: same transfer, side and stream, met in order.
struct MeetingPoint {
  std::uint16_t transfer = 0;
  program::ActionKind kind{};
  program::Stream stream{};
  friend bool operator==(const MeetingPoint&, const MeetingPoint&) = default;
};

// What a step does at a meeting point: how often, and in picoseconds at least.
struct PointUse {
  double meetings = 0;
  std::int64_t shortest = 0;
};

struct Range {
  std::uint32_t first = 0, last = 0;   // operations [first, last)
};

// A routine's operations, and what they are.
struct RoutineRange {
  Range range;
  std::string_view name;               // "forward", "last_backward", "end"
  int chunk = 0;
};

struct TimetableOptions {
  bool parts = false;                  // keep what each operation consists of, allocations too
};

class Timetable {
 public:
  Timetable(const program::Program& program, const program::RankClass& rank_class,
            const cost::Machine& machine, int rank, TimetableOptions options = {});

  const program::RankClass& rank_class() const { return *class_; }
  const std::vector<Operation>& operations() const { return operations_; }
  const Operation& operation(std::uint32_t index) const { return operations_[index]; }
  const Instance& wait(std::uint32_t index) const { return waits_[index]; }
  const Instance& signal(std::uint32_t index) const { return signals_[index]; }
  const Part& part(std::uint32_t index) const { return parts_[index]; }
  const std::vector<MeetingPoint>& points() const { return points_; }
  std::uint32_t instances() const { return instances_; }

  Range begin() const { return begin_; }
  Range end() const { return end_; }
  Range finish() const { return finish_; }
  Range of(const program::Pass& pass) const;
  double operations_of_step() const;
  // By point.
  std::vector<PointUse> point_uses() const;
  // The routine that an operation belongs to; O(log routines).
  const RoutineRange& routine_of(std::uint32_t operation) const;

 private:
  class Builder;
  // Of a step, how often each of its ranges is played.
  std::vector<std::pair<Range, double>> plays() const;
  enum PassRange { forward, backward, last_backward, weight, last_weight, kPassRanges };

  const program::RankClass* class_;
  std::vector<Operation> operations_;
  std::vector<Instance> waits_, signals_;
  std::vector<Part> parts_;
  std::vector<MeetingPoint> points_;
  std::uint32_t instances_ = 0;
  Range begin_, end_, finish_;
  std::vector<std::array<Range, kPassRanges>> chunks_;
  std::vector<RoutineRange> routines_;  // ascending, those that have operations
};

// The operations of `steps` steps, one after another, in issue order (without flush: of a run of so
// many); O(1) memory.
class OperationCursor {
 public:
  OperationCursor(const Timetable& timetable, int steps)
      : timetable_(&timetable), passes_(timetable.rank_class().schedule, {0, steps}),
        steps_(steps) {
    enter(timetable.begin(), 0);
    settle();
  }

  bool done() const { return step_ == steps_; }
  // The current step's operations are all behind: join() leads to the next step.
  bool at_join() const { return phase_ == Phase::join; }
  // REQUIRES: !done() && !at_join().
  std::uint32_t index() const { return at_; }
  const Operation& operation() const { return timetable_->operation(at_); }
  std::int64_t micro_batch() const { return micro_batch_; }
  int step() const { return step_; }
  void advance() {
    ++at_;
    settle();
  }
  void join();

 private:
  enum class Phase : std::uint8_t { begin, passes, end, finish, join };

  void enter(Range range, std::int64_t micro_batch) {
    at_ = range.first;
    last_ = range.last;
    micro_batch_ = micro_batch;
  }
  void settle() {
    while (phase_ != Phase::join) {
      while (at_ < last_ && micro_batch_ == 0 && timetable_->operation(at_).skip_first) ++at_;
      if (at_ < last_) return;
      next_range();
    }
  }
  void next_range();

  const Timetable* timetable_;
  program::Passes passes_;
  int steps_, step_ = 0;
  Phase phase_ = Phase::begin;
  std::uint32_t at_ = 0, last_ = 0;
  std::int64_t micro_batch_ = 0;
};

}  // namespace engine
