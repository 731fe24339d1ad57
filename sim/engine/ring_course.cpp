#include "sim/engine/ring_course.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace engine {
namespace {

using Times = std::vector<std::int64_t>;

// When the messages of the next round set out, from when those of this one ended.
void next_starts(const Times& ends, Times& starts) {
  starts.resize(ends.size());
  for (std::size_t r = 0; r < ends.size(); ++r)
    starts[r] = std::max(ends[r], ends[r == 0 ? ends.size() - 1 : r - 1]);
}

// By how much every edge ended later than a round before; kNot: not all by the same.
std::int64_t steady_pace(const Times& before, const Times& now) {
  const std::int64_t pace = now[0] - before[0];
  for (std::size_t r = 1; r < now.size(); ++r)
    if (now[r] - before[r] != pace) return RingCourse::kNot;
  return pace;
}

}  // namespace

RingCourse::RingCourse(std::span<const std::int64_t> takes, std::int64_t rounds)
    : at_(takes.size(), 0) {
  PLANNER_CHECK(!takes.empty() && rounds >= 1);
  Times starts, before;
  for (std::int64_t s = 0; s < rounds; ++s) {
    before = at_;
    next_starts(before, starts);
    for (std::size_t r = 0; r < takes.size(); ++r) at_[r] = starts[r] + takes[r];
    const std::int64_t pace = steady_pace(before, at_);
    if (pace == kNot) continue;
    for (std::int64_t& end : at_) end += pace * (rounds - 1 - s);
    return;
  }
}

std::vector<RingCourse::EdgeState> RingCourse::at(std::span<const std::int64_t> takes,
                                                  std::int64_t rounds, std::int64_t time) {
  std::vector<EdgeState> states(takes.size());
  Times ends(takes.size(), 0), starts, before;
  for (std::int64_t s = 0; s < rounds; ++s) {
    before = ends;
    next_starts(before, starts);
    bool any = false;
    for (std::size_t r = 0; r < takes.size(); ++r) {
      ends[r] = starts[r] + takes[r];
      if (states[r].ended < s) continue;  // an earlier message of this edge is on its way
      if (starts[r] <= time) states[r].set_out = starts[r];
      if (ends[r] > time) continue;
      states[r] = {s + 1, kNot};
      any = true;
    }
    if (!any) return states;
    const std::int64_t pace = steady_pace(before, ends);
    const std::int64_t last = *std::ranges::max_element(ends);
    if (pace <= 0 || last > time) continue;
    const std::int64_t skipped = std::min(rounds - 1 - s, (time - last) / pace);
    for (std::int64_t& end : ends) end += pace * skipped;
    for (EdgeState& state : states) state.ended += skipped;
    s += skipped;
  }
  return states;
}

}  // namespace engine
