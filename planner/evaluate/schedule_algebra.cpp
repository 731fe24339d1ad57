#include "planner/evaluate/schedule_algebra.hpp"

#include "planner/evaluate/pipeline_play.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
// Of zb_v on equal ranks, as a period.
static std::int64_t v_idle(const Strategy& s, const PassTimes& t, std::int64_t micro_batches,
                           std::int64_t message) {
  std::vector<program::Schedule> ranks;
  for (int r = 0; r < static_cast<int>(s.pipeline); ++r)
    ranks.push_back(schedule_of(s, r, micro_batches));
  return played_idle(ranks, {t.forward / 2, t.input_gradient / 2, t.weight_gradient / 2}, message)
      .period;
}

// Played over as many micro-batches as show what a further one costs.
static std::int64_t v_message_waits(const Strategy& s, const PassTimes& t, std::int64_t message) {
  const std::int64_t shown = 2 * s.pipeline + 1, m = s.grad_accum;
  const std::int64_t few = std::min(m, shown), more = 2 * shown;
  const std::int64_t idle = v_idle(s, t, few, message);
  std::int64_t rest = 0;
  if (m > few) rest = (m - few) * (v_idle(s, t, more, message) - idle) / (more - few);
  return idle - v_idle(s, t, few, 0) + rest;
}

PassTimes mean_of_others(const PassTimes& all, const PassTimes& own, std::int64_t p) {
  return {(all.forward - own.forward) / (p - 1),
          (all.input_gradient - own.input_gradient) / (p - 1),
          (all.weight_gradient - own.weight_gradient) / (p - 1)};
}

Messages messages_over(std::span<const std::int64_t> links, std::int64_t chunks) {
  const std::size_t p = links.size();
  Messages m;
  for (std::size_t r = 0; r < p; ++r) {
    const bool wraps = r + 1 == p;
    if (wraps && chunks == 1) break;
    m.all += (wraps ? chunks - 1 : chunks) * links[r];
    m.slowest = std::max(m.slowest, links[r]);
    if (r > 0) m.busiest = std::max(m.busiest, links[r - 1] + links[r]);
  }
  if (chunks > 1 && p > 2) m.busiest = std::max(m.busiest, links[p - 1] + links[0]);
  if (p == 2) m.busiest = m.all / chunks;
  return m;
}

std::int64_t message_waits(const Strategy& s, const PassTimes& t, const Messages& messages) {
  const std::int64_t p = s.pipeline, m = s.grad_accum;
  const std::int64_t there_and_back = 2 * messages.all;
  const auto beyond = [](std::int64_t least, std::int64_t own) {
    return std::max<std::int64_t>(least - own, 0);
  };
  if (s.schedule == Schedule::gpipe)
    return there_and_back + (m - 1) * (beyond(messages.slowest, t.forward) +
                                       beyond(messages.slowest, t.sum() - t.forward));
  if (s.schedule == Schedule::interleaved) {
    const std::int64_t v = s.virtual_stages, slots = m * v - (v * p + p - 1);
    return there_and_back +
           std::max<std::int64_t>(slots, 0) * beyond(messages.busiest, t.sum() / v);
  }
  if (s.schedule == Schedule::zb_v) return v_message_waits(s, t, messages.all / (2 * p - 1));
  // Slots of rank 0 from a forward pass to its backward pass, both counted as one, and what lies
  // between on all ranks.
  const std::int64_t ahead = s.schedule == Schedule::zb_h2 ? 2 * p - 1 : p;
  const bool split = s.schedule == Schedule::zb_h1 || s.schedule == Schedule::zb_h2;
  const std::int64_t path = p * t.sum() - (split ? (p - 1) * t.weight_gradient : 0);
  const std::int64_t round = (path + there_and_back) / ahead;
  if (is_endless(s.schedule)) return m * beyond(std::max(round, messages.busiest), t.sum());
  return there_and_back + std::max<std::int64_t>(m - ahead, 0) *
                              beyond(std::max(round, messages.busiest), t.sum());
}

std::int64_t slack(const Strategy& s, std::int64_t before) {
  const bool none = splits_backward(s.schedule) || is_endless(s.schedule);
  if (none) return 0;
  return s.virtual_stages == 1 ? before : before / s.virtual_stages;
}

std::int64_t bubble(const Strategy& s, const PassTimes& t, bool joined_at_end) {
  const std::int64_t behind = s.pipeline - 1;
  switch (s.schedule) {
    case Schedule::interleaved:
      return behind * t.sum() / s.virtual_stages;
    case Schedule::zb_h1:
      return behind *
             (t.forward + std::max<std::int64_t>(t.input_gradient - t.weight_gradient, 0));
    case Schedule::zb_h2: {
      const std::int64_t idle = behind * (t.forward + t.input_gradient - 2 * t.weight_gradient);
      return std::max<std::int64_t>(idle, joined_at_end ? behind * t.forward : 0);
    }
    case Schedule::zb_v:
      return v_idle(s, t, std::min(s.grad_accum, 2 * s.pipeline + 1), 0);
    case Schedule::pipedream:
    case Schedule::pipedream_2bw:
      return joined_at_end ? behind * (t.input_gradient + t.weight_gradient) : 0;
    default:
      return behind * t.sum();
  }
}

}  // namespace planner
