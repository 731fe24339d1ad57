#pragma once
// Internal: what the engine keeps of operations under way. Value types.

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/timetable.hpp"

namespace engine {

// An event instance or a stream's end: when it last happened, or which node decides it.
struct Moment {
  std::int64_t time = 0;
  std::int64_t missing_from = 0, missing_to = 0;  // a party was missing last, on the way there
  std::uint32_t pending = kAbsent;
};
struct Player {
  OperationCursor cursor;
  std::array<Moment, program::kStreams> tails{};
  std::size_t first_moment = 0;
  std::int64_t compute_done = 0;
  std::int64_t computing = 0;        // compute operations issued and not finished
  std::uint64_t issued = 0;
};
// An operation that was issued and is not finished.
struct Node {
  std::uint32_t actor = 0, operation = 0;
  std::int64_t micro_batch = 0, duration = 0;
  std::int64_t ready = 0, start = 0;
  std::int64_t missing_from = 0, missing_to = 0;
  int step = 0, missing = 0;
  std::uint32_t waiters = kAbsent;   // edge: node * program::kStreams + place
  std::array<std::uint32_t, program::kStreams> next_waiter{};
  std::uint32_t next_here = kAbsent; // at the same meeting, or free
  std::uint32_t turn = 0;            // of a buffered channel
};
struct Turn {
  std::uint32_t posted = 0;
  std::int64_t latest = 0;
  std::uint32_t waiting = kAbsent;
};
struct Meeting {
  std::uint32_t arrived = 0;
  std::int64_t latest = 0, duration = 0;
  std::uint32_t here = kAbsent;
  std::vector<Turn> turns;
};

}  // namespace engine
