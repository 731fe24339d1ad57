#pragma once
// EventQueue: pending events in the order of (time, order), for a clock that never runs backwards.
//
// A radix queue whose end is sorted. Times are cut into digits of kDigitBits; an event waits in the
// slot of its first digit, from the top, that differs from `base_`, the start of the window being
// served. To go on, the first slot of the lowest level that has any is opened: few events are
// sorted at once and become the window (`front_`), many are spread over the levels below. An event
// moves at most once per level, in chunks that are read and written in sequence, so a million
// pending events cost little more than a thousand; nothing is tuned to the spacing of events.
// (A calendar queue [calendar] adapts its widths instead; a radix heap [radix-heap] spreads down to
// single times. Measured by `planner bench`.)
//
// pop and push: amortised O(levels) moves, no allocation once the pool has grown to the greatest
// number of pending events. Thread-compatible.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.hpp"

namespace engine {

struct Event {
  std::int64_t time = 0;               // picoseconds, >= 0
  std::uint32_t order = 0;             // breaks ties of time
  std::uint32_t data = 0;              // the owner's; no part in the order where `order` is unique
  friend bool operator==(const Event&, const Event&) = default;
};
inline bool before(const Event& a, const Event& b) {
  if (a.time != b.time) return a.time < b.time;
  return a.order != b.order ? a.order < b.order : a.data < b.data;
}

class EventQueue {
 public:
  EventQueue();

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Time of the latest pop: no event may be pushed before it.
  std::int64_t now() const { return now_; }

  // REQUIRES: event.time >= now().
  void push(const Event& event) {
    PLANNER_CHECK(event.time >= now_, "an event in the past");
    ++size_;
    if (event.time <= window_last_)
      insert(event);
    else
      append(event);
  }

  // The first event by (time, order, data). REQUIRES: !empty().
  Event pop() {
    const bool from_front = first_is_in_front();
    --size_;
    const Event event = from_front ? front_[--front_size_] : pop_late();
    now_ = event.time;
    return event;
  }

  // Pops the first event where its time is less than the limit. False: there is none.
  bool pop_before(std::int64_t limit, Event& event) {
    if (size_ == 0) return false;
    const bool from_front = first_is_in_front();
    if ((from_front ? front_[front_size_ - 1] : late_.front()).time >= limit) return false;
    --size_;
    event = from_front ? front_[--front_size_] : pop_late();
    now_ = event.time;
    return true;
  }

  // Of the first event, which stays. REQUIRES: !empty().
  std::int64_t next_time() {
    return first_is_in_front() ? front_[front_size_ - 1].time : late_.front().time;
  }

 private:
  static constexpr int kDigitBits = 9;
  static constexpr int kLevels = (63 + kDigitBits - 1) / kDigitBits;
  static constexpr std::size_t kSlots = std::size_t{1} << kDigitBits;
  static constexpr std::size_t kSortAtOnce = 24;  // events that become a window
  static constexpr std::size_t kFront = 4 * kSortAtOnce;
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct alignas(64) Chunk {
    static constexpr std::uint32_t kCapacity = 7;
    std::uint32_t next = kNone, count = 0;
    std::array<Event, kCapacity> events;
  };
  struct Level {
    std::array<std::uint64_t, kSlots / 64> used{};  // a bit per slot that has events
    std::array<std::uint32_t, kSlots> head{};       // chunk being filled; kNone: empty
  };

  bool first_is_in_front() {
    PLANNER_CHECK(size_ > 0, "no event is pending");
    if (front_size_ == 0 && late_.empty()) open_window();
    return front_size_ > 0 && (late_.empty() || before(front_[front_size_ - 1], late_.front()));
  }

  void append(const Event& event) {
    const auto differing = static_cast<std::uint64_t>(event.time ^ base_);
    const int level = (63 - std::countl_zero(differing)) / kDigitBits;
    const auto slot =
        static_cast<std::size_t>(event.time >> (level * kDigitBits)) & (kSlots - 1);
    Level& l = levels_[static_cast<std::size_t>(level)];
    std::uint32_t head = l.head[slot];
    if (head == kNone || pool_[head].count == Chunk::kCapacity) head = grow(level, slot);
    Chunk& chunk = pool_[head];
    chunk.events[chunk.count++] = event;
  }

  // Into the window being served, which is kept sorted, the next event last.
  void insert(const Event& event) {
    if (front_size_ == kFront) return insert_late(event);
    std::size_t at = front_size_++;
    for (; at > 0 && before(front_[at - 1], event); --at) front_[at] = front_[at - 1];
    front_[at] = event;
  }

  std::uint32_t grow(int level, std::size_t slot);
  void insert_late(const Event& event);
  Event pop_late();
  void open_window();
  void spread(std::uint32_t chunk);
  void take(std::uint32_t chunk, std::size_t count);

  std::array<Event, kFront> front_;
  std::size_t front_size_ = 0;
  std::vector<Event> late_;            // heap: what the window had no room for
  std::size_t size_ = 0;
  std::int64_t now_ = 0, base_ = 0;
  std::int64_t window_last_ = -1;      // of the times being served
  std::uint32_t used_levels_ = 0;      // a bit per level that has events
  std::uint32_t free_ = kNone;         // chunks, chained by next
  std::vector<Chunk> pool_;
  std::array<Level, kLevels> levels_;
};

}  // namespace engine
