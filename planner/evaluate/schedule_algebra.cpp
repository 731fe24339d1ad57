#include "planner/evaluate/schedule_algebra.hpp"

#include "planner/evaluate/pipeline_play.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

// Of equal ranks, as a period: for schedules without a formula.
std::int64_t played(const Strategy& s, const PassTimes& t, std::int64_t micro_batches,
                    std::int64_t message) {
  std::vector<program::RankSchedule> ranks;
  for (int r = 0; r < static_cast<int>(s.pipeline); ++r)
    ranks.push_back(schedule_of(s, r, micro_batches));
  const std::int64_t v = s.virtual_stages;
  return played_idle(ranks, {t.forward / v, t.input_gradient / v, t.weight_gradient / v}, message)
      .period;
}

// So many micro-batches show what a further one costs.
std::int64_t shown(const Strategy& s) { return std::min(s.grad_accum, 2 * s.pipeline + 1); }

std::int64_t played_message_waits(const Strategy& s, const PassTimes& t, std::int64_t message) {
  const std::int64_t m = s.grad_accum, few = shown(s), more = 2 * (2 * s.pipeline + 1);
  const std::int64_t idle = played(s, t, few, message);
  std::int64_t rest = 0;
  if (m > few) rest = (m - few) * (played(s, t, more, message) - idle) / (more - few);
  return idle - played(s, t, few, 0) + rest;
}

// What rank 0 idles in a step, or in what repeats. joined: see bubble().
using Formula = std::int64_t (*)(const Strategy& s, const PassTimes& t, bool joined);

std::int64_t behind(const Strategy& s) { return s.pipeline - 1; }

std::int64_t fill_and_drain(const Strategy& s, const PassTimes& t, bool) {
  return behind(s) * t.sum();
}

std::int64_t of_chunks(const Strategy& s, const PassTimes& t, bool) {
  return behind(s) * t.sum() / s.virtual_stages;
}

std::int64_t of_zb_h1(const Strategy& s, const PassTimes& t, bool) {
  return behind(s) * (t.forward + std::max<std::int64_t>(t.input_gradient - t.weight_gradient, 0));
}

std::int64_t of_zb_h2(const Strategy& s, const PassTimes& t, bool joined) {
  const std::int64_t idle =
      behind(s) * (t.forward + t.input_gradient - 2 * t.weight_gradient);
  return std::max<std::int64_t>(idle, joined ? behind(s) * t.forward : 0);
}

std::int64_t without_flush(const Strategy& s, const PassTimes& t, bool joined) {
  return joined ? behind(s) * (t.input_gradient + t.weight_gradient) : 0;
}

Formula formula_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::none:
    case Schedule::gpipe:
    case Schedule::one_f_one_b: return fill_and_drain;
    case Schedule::interleaved: return of_chunks;
    case Schedule::zb_h1: return of_zb_h1;
    case Schedule::zb_h2: return of_zb_h2;
    case Schedule::pipedream:
    case Schedule::pipedream_2bw: return without_flush;
    default: return nullptr;
  }
}

}  // namespace

bool has_formula(Schedule schedule) { return formula_of(schedule) != nullptr; }

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
  const ScheduleDef& def = schedule_def(s.schedule);
  if (!has_formula(s.schedule))
    return played_message_waits(s, t, messages.all / (s.virtual_stages * p - 1));
  if (def.forwards_first)
    return there_and_back + (m - 1) * (beyond(messages.slowest, t.forward) +
                                       beyond(messages.slowest, t.sum() - t.forward));
  if (interleaves(s.schedule)) {
    const std::int64_t v = s.virtual_stages, slots = m * v - (v * p + p - 1);
    return there_and_back +
           std::max<std::int64_t>(slots, 0) * beyond(messages.busiest, t.sum() / v);
  }
  // Slots of rank 0 from a forward pass to its backward pass, both counted as one, and what lies
  // between on all ranks.
  const PipelinePlace first{0, p, 1, m};
  const std::int64_t ahead = 1 + (def.warm_up == nullptr ? 0 : def.warm_up(first));
  const std::int64_t path =
      p * t.sum() - (def.splits_backward ? (p - 1) * t.weight_gradient : 0);
  const std::int64_t round = (path + there_and_back) / ahead;
  if (!def.flushes) return m * beyond(std::max(round, messages.busiest), t.sum());
  return there_and_back + std::max<std::int64_t>(m - ahead, 0) *
                              beyond(std::max(round, messages.busiest), t.sum());
}

std::int64_t slack(const Strategy& s, std::int64_t before) {
  const bool none = splits_backward(s.schedule) || !flushes(s.schedule);
  if (none) return 0;
  return s.virtual_stages == 1 ? before : before / s.virtual_stages;
}

std::int64_t bubble(const Strategy& s, const PassTimes& t, bool joined_at_end) {
  const Formula formula = formula_of(s.schedule);
  return formula != nullptr ? formula(s, t, joined_at_end) : played(s, t, shown(s), 0);
}

}  // namespace planner
