#pragma once
// Cursor: yields the calls of one rank's step in issue order, in O(1) memory, resumable at any call
// (the engine keeps one per rank or folded class). for_each_call is the same as a loop.

#include <cstddef>

#include "sim/program/program.hpp"

namespace program {

class Cursor {
 public:
  explicit Cursor(const RankClass& rank_class, StepOf which = {})
      : class_(&rank_class), passes_(rank_class.schedule, which), which_(which),
        routine_(&rank_class.begin), micro_batch_(rank_class.schedule.first_of(which.step)) {
    settle();
  }

  bool done() const { return routine_ == nullptr; }
  // REQUIRES: !done().
  Call call() const {
    Call c = (*routine_)[at_];
    c.micro_batch = static_cast<std::uint32_t>(micro_batch_);
    return c;
  }
  void advance() {
    ++at_;
    settle();
  }

 private:
  // Moves to the next routine until one has a call left.
  void settle() {
    while (routine_ != nullptr && at_ >= routine_->size()) next_routine();
  }
  void next_routine();

  const RankClass* class_;
  Passes passes_;
  StepOf which_;
  const Routine* routine_;
  std::size_t at_ = 0;
  std::int64_t micro_batch_ = 0;
  bool ended_ = false, finished_ = false;
};

// visit(const Call&) for each call of the class, in issue order.
template <class Visit>
void for_each_call(const RankClass& rank_class, Visit&& visit, StepOf which = {}) {
  for (Cursor cursor(rank_class, which); !cursor.done(); cursor.advance()) visit(cursor.call());
}

}  // namespace program
