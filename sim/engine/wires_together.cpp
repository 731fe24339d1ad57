// Rings that are stepped together: their course, and taking it apart.
#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "sim/engine/ring_course.hpp"
#include "sim/engine/wires.hpp"

namespace engine {

const Wires::Course& Wires::course_of(const Exchange& x) {
  const auto [at, fresh] = courses_.try_emplace({x.plan, x.cast, x.beside});
  Course& course = at->second;
  if (!fresh) return course;
  const std::size_t edges = x.plan->messages.size();
  for (std::uint32_t r = 0; r < edges; ++r) {
    // As Network::set_rate counts it.
    const double wire = std::ceil(x.plan->messages[r].bytes /
                                  network_.rate_alone(x.cast->paths[r]) * (1 - 1e-12));
    PLANNER_CHECK(wire < 9e18, "a message that takes longer than the clock counts");
    course.takes.push_back(set_out_delay(x, r) + static_cast<std::int64_t>(wire));
  }
  const RingCourse ring(course.takes, x.plan->rounds);
  for (std::size_t r = 0; r < edges; ++r) {
    const std::size_t before = r == 0 ? edges - 1 : r - 1;
    course.ends.push_back({std::max(ring.ends()[r], ring.ends()[before]), static_cast<int>(r)});
  }
  std::ranges::stable_sort(course.ends, {}, &Course::End::time);
  return course;
}

void Wires::step_together(std::uint32_t e) {
  exchanges_[e].next_end = 0;
  schedule_course(e);
}

void Wires::schedule_course(std::uint32_t e) {
  const Exchange& x = exchanges_[e];
  const Course& course = course_of(x);
  courses_due_.push({x.start + course.ends[x.next_end].time, e, x.life});
}

void Wires::end_course(std::uint32_t e, std::int64_t now, std::vector<Done>& done) {
  Exchange& x = exchanges_[e];
  const Course& course = course_of(x);
  for (; x.next_end < course.ends.size(); ++x.next_end) {
    if (x.start + course.ends[x.next_end].time > now) return schedule_course(e);
    done.push_back({x.token, course.ends[x.next_end].member});
  }
  const auto rounds = static_cast<double>(x.plan->rounds);
  for (std::uint32_t m = 0; m < x.plan->messages.size(); ++m) {
    count(x, m, rounds);
    network_.carry(x.cast->paths[m], x.plan->messages[m].bytes * rounds);
  }
  ++stepped_together_;
  x.together = false;
  finish(e);
}

// From now on its messages are played one by one.
void Wires::take_apart(std::uint32_t e, std::int64_t now) {
  Exchange& x = exchanges_[e];
  PLANNER_CHECK(x.together && now >= x.start);
  const Course& course = course_of(x);
  const std::vector<RingCourse::EdgeState> states =
      RingCourse::at(course.takes, x.plan->rounds, now - x.start);
  x.together = false;
  for (const std::uint32_t link : x.cast->links) holders_[link].together = kNobody;
  for (; x.next_end < course.ends.size(); ++x.next_end) {
    if (x.start + course.ends[x.next_end].time > now) break;
    due_.push_back({x.token, course.ends[x.next_end].member});
    due_since_ = now;
  }
  const std::size_t edges = states.size();
  x.ended.assign(edges, 0);
  x.awaits.assign(edges, 1);
  x.left.assign(edges, 0);
  x.unfinished = 0;
  for (std::uint32_t r = 0; r < edges; ++r) {
    x.ended[r] = states[r].ended;
    const auto times = static_cast<double>(states[r].ended);
    count(x, r, times);
    network_.carry(x.cast->paths[r], x.plan->messages[r].bytes * times);
    if (states[r].ended < x.plan->rounds) {
      ++x.unfinished;
      ++x.left[r];
      ++x.left[(r + 1) % edges];
    }
  }
  if (x.unfinished == 0) return finish(e);
  for (std::uint32_t r = 0; r < edges; ++r) {
    if (states[r].set_out == RingCourse::kNot) continue;
    x.awaits[r] = 0;
    const std::int64_t begin = x.start + states[r].set_out + set_out_delay(x, r);
    const std::uint32_t f = take_flight(e, r);
    if (begin > now)
      begins_.push({begin, f, 0});
    else
      network_.resume(f, x.cast->paths[r], x.plan->messages[r].bytes, begin);
  }
}

}  // namespace engine
