#include "sim/engine/event_queue.hpp"

#include <algorithm>

namespace engine {
namespace {

bool after(const Event& a, const Event& b) { return before(b, a); }

}  // namespace

EventQueue::EventQueue() {
  for (Level& level : levels_) level.head.fill(kNone);
}

// A fresh chunk at the head of the slot.
std::uint32_t EventQueue::grow(int level, std::size_t slot) {
  Level& l = levels_[static_cast<std::size_t>(level)];
  std::uint32_t chunk = free_;
  if (chunk == kNone) {
    chunk = static_cast<std::uint32_t>(pool_.size());
    PLANNER_CHECK(chunk != kNone, "more events than indices");
    pool_.emplace_back();
  } else {
    free_ = pool_[chunk].next;
  }
  pool_[chunk].next = l.head[slot];
  pool_[chunk].count = 0;
  l.head[slot] = chunk;
  l.used[slot / 64] |= std::uint64_t{1} << (slot % 64);
  used_levels_ |= std::uint32_t{1} << level;
  return chunk;
}

void EventQueue::insert_late(const Event& event) {
  late_.push_back(event);
  std::ranges::push_heap(late_, after);
}

Event EventQueue::pop_late() {
  std::ranges::pop_heap(late_, after);
  const Event event = late_.back();
  late_.pop_back();
  return event;
}

// Opens slots, from the lowest level and the first on, until one is small enough to be sorted.
void EventQueue::open_window() {
  while (front_size_ == 0 && late_.empty()) {
    const int level = std::countr_zero(used_levels_);
    PLANNER_CHECK(level < kLevels, "pending events are in no slot");
    Level& l = levels_[static_cast<std::size_t>(level)];
    std::size_t word = 0;
    while (l.used[word] == 0) ++word;
    const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(l.used[word]));
    l.used[word] &= l.used[word] - 1;
    if (std::ranges::all_of(l.used, [](std::uint64_t w) { return w == 0; }))
      used_levels_ &= ~(std::uint32_t{1} << level);
    const std::uint32_t head = std::exchange(l.head[slot], kNone);

    const int low = level * kDigitBits;
    const std::int64_t width = std::int64_t{1} << low;
    const std::int64_t above = base_ >> low >> kDigitBits << kDigitBits;
    base_ = (above | static_cast<std::int64_t>(slot)) << low;
    std::size_t count = 0;
    for (std::uint32_t c = head; c != kNone; c = pool_[c].next) count += pool_[c].count;
    window_last_ = base_ - 1;
    if (level > 0 && count > kSortAtOnce) {
      spread(head);
      continue;
    }
    window_last_ = base_ + (width - 1);
    take(head, count);
  }
}

void EventQueue::spread(std::uint32_t chunk) {
  while (chunk != kNone) {
    const Chunk copy = pool_[chunk];   // appending may grow the pool
    pool_[chunk].next = std::exchange(free_, chunk);
    for (std::uint32_t i = 0; i < copy.count; ++i) {
      if (copy.events[i].time == base_)
        insert_late(copy.events[i]);   // first of all: no digit of it differs
      else
        append(copy.events[i]);
    }
    chunk = copy.next;
  }
  if (!late_.empty()) window_last_ = base_;
}

void EventQueue::take(std::uint32_t chunk, std::size_t count) {
  const bool fits = count <= kFront;
  while (chunk != kNone) {
    Chunk& c = pool_[chunk];
    for (std::uint32_t i = 0; i < c.count; ++i) {
      if (fits)
        insert(c.events[i]);
      else
        insert_late(c.events[i]);
    }
    const std::uint32_t next = c.next;
    c.next = std::exchange(free_, chunk);
    chunk = next;
  }
}

}  // namespace engine
