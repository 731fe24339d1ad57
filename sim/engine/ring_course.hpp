#pragma once
// The course of a ring whose edges share no link with anything: when each edge has passed on how
// many of its messages. Message s of edge r starts when message s - 1 of edge r and of the edge
// before it have ended, and takes `takes[r]`:
//   T(r, s) = max(T(r, s - 1), T(r - 1, s - 1)) + takes[r],  T(r, -1) = 0,  r - 1 taken round
// Once a round ends on every edge the same time after the round before, so do all that follow:
// these are added at once. O(edges x rounds until then). Pure values.

#include <cstdint>
#include <span>
#include <vector>

namespace engine {

class RingCourse {
 public:
  // REQUIRES: takes not empty, none negative; rounds >= 1.
  RingCourse(std::span<const std::int64_t> takes, std::int64_t rounds);

  // By edge: when its last message ends.
  const std::vector<std::int64_t>& ends() const { return at_; }

  // At a time: how many messages of an edge have ended, and when the next one set out, where it
  // has (kNot: it waits for the edge before, or there is none).
  static constexpr std::int64_t kNot = -1;
  struct EdgeState {
    std::int64_t ended = 0, set_out = kNot;
  };
  // O(edges x rounds that end by then, or until the pace is steady).
  static std::vector<EdgeState> at(std::span<const std::int64_t> takes, std::int64_t rounds,
                                   std::int64_t time);

 private:
  std::vector<std::int64_t> at_;
};

}  // namespace engine
