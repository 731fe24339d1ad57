#pragma once
// Internal: what the engine keeps of operations under way. Value types.

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "sim/engine/borders.hpp"
#include "sim/engine/outcome.hpp"
#include "sim/engine/scene.hpp"

namespace engine {

// Breaks ties of time between ends of operations: by rank, then stream.
inline std::uint32_t queue_order(const Actor& actor, program::Stream stream) {
  return static_cast<std::uint32_t>(actor.rank) * program::kStreams +
         static_cast<std::uint32_t>(stream);
}

// An event instance or a stream's end: when it last happened, or which node decides it.
struct Moment {
  std::int64_t time = 0;
  std::int64_t missing_from = 0, missing_to = 0;  // a party was missing last, on the way there
  std::uint32_t pending = kAbsent;
  void decide(std::uint32_t node, const Moment& now) {
    if (pending == node) *this = now;
  }
};
struct Player {
  OperationCursor cursor;
  const Actor* actor = nullptr;
  const Timetable* table = nullptr;
  const Seat* seats = nullptr;       // by point
  Account* accounts = nullptr;       // by step
  std::uint32_t id = 0;              // of the actor in the scene
  std::array<Moment, program::kStreams> tails{};
  std::size_t first_moment = 0;
  std::int64_t compute_done = 0;
  std::int64_t computing = 0;        // compute operations issued and not finished
  std::uint64_t issued = 0;
};
// An operation that was issued and is not finished.
struct Node {
  std::uint32_t player = 0, operation = 0;
  std::int64_t micro_batch = 0, duration = 0;
  std::int64_t ready = 0, start = 0;
  std::int64_t missing_from = 0, missing_to = 0;
  int step = 0, missing = 0;
  std::uint32_t waiters = kAbsent;   // edge: node * program::kStreams + place
  std::array<std::uint32_t, program::kStreams> next_waiter{};
  std::uint32_t next_here = kAbsent; // at the same meeting, or free
  std::uint32_t turn = 0;            // of a buffered channel

  // It is not ready before the moment. Of equal times the one that tells most of missing parties,
  // whatever the order of asking.
  void reach(const Moment& moment) {
    if (std::tie(moment.time, moment.missing_to, moment.missing_from) <=
        std::tie(ready, missing_to, missing_from))
      return;
    ready = moment.time;
    missing_from = moment.missing_from;
    missing_to = moment.missing_to;
  }
};

// The nodes in use. References to them end with take().
class Nodes {
 public:
  Node& operator[](std::uint32_t n) { return nodes_[n]; }
  const Node& operator[](std::uint32_t n) const { return nodes_[n]; }
  std::size_t taken() const { return taken_; }

  std::uint32_t take() {
    ++taken_;
    if (free_ == kAbsent) {
      nodes_.emplace_back();
      return static_cast<std::uint32_t>(nodes_.size() - 1);
    }
    const std::uint32_t n = free_;
    free_ = nodes_[n].next_here;
    nodes_[n] = Node{};
    return n;
  }
  void free(std::uint32_t n) {
    nodes_[n].next_here = free_;
    free_ = n;
    --taken_;
  }

  // What the moment decides is the place-th thing that the node waits for.
  void wait_for(std::uint32_t n, std::size_t place, const Moment& moment) {
    Node& node = nodes_[n];
    if (moment.pending == kAbsent) return node.reach(moment);
    Node& other = nodes_[moment.pending];
    ++node.missing;
    node.next_waiter[place] = other.waiters;
    other.waiters = n * program::kStreams + static_cast<std::uint32_t>(place);
  }

 private:
  std::vector<Node> nodes_;
  std::uint32_t free_ = kAbsent;
  std::size_t taken_ = 0;
};

// When the parties of a block are ready, and when the last of them said so.
struct Readiness {
  std::int64_t time = 0, told = 0;
  void keep_later(const Readiness& other) {
    time = std::max(time, other.time);
    told = std::max(told, other.told);
  }
};
using EngineBorders = Borders<Readiness>;

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
