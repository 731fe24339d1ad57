#include "planner/strategy/share_problems.hpp"

#include <algorithm>

#include "planner/strategy/schedules.hpp"

namespace planner {

void add_share_problems(const Job& job, const Strategy& s, Failures& failures_) {
  if (s.shares.empty()) return;
  const auto text = [](std::int64_t n) { return Phrase(n); };
  NEED(std::ssize(s.shares) == s.data, "shares",
       "micro-batches for each of " + text(s.data) + " data ranks", text(std::ssize(s.shares)));
  NEED(std::ranges::all_of(s.shares, [](std::int64_t m) { return m >= 1 && m < 1 << 24; }),
       "shares", "at least one micro-batch on each data rank", "fewer");
  NEED(job.mode != Mode::inference, "shares", "auto for inference", "shares");
  NEED(s.sharding <= Sharding::zero1, "sharding", "none or zero1 with shares",
       Phrase(name(s.sharding)),
       "ranks that gather parameters do so in each micro-batch, so all need equally many");
  NEED(s.expert == 1, "expert", "1 with shares", text(s.expert),
       "ranks that exchange rows do so in each micro-batch, so all need equally many");
  NEED(s.split == 1, "split", "1 with shares", text(s.split),
       "ranks that divide operators meet in each micro-batch, so all need equally many");
  NEED(s.grad_sync != GradSync::parameter_server, "grad_sync", "auto or ring with shares",
       Phrase(name(s.grad_sync)));
  NEED(flushes(s.schedule), "schedule", "a schedule that flushes with shares",
       Phrase(name(s.schedule)), "pin schedule=1f1b");
  for (const std::int64_t m : s.shares)
    if (m >= 1 && !schedule_takes(s.schedule, s.pipeline, m))
      return failures_.add("shares", "micro-batches that schedule=" + Phrase(name(s.schedule)) +
                                         " takes on each data rank", text(m),
                           "use a smaller micro-batch, or 1f1b");
}

}  // namespace planner
