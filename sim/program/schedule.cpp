#include "sim/program/schedule.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace program {

std::int64_t RankSchedule::in_flight() const {
  const std::int64_t m = micro_batches;
  if (!flushes) return warm_up + 1;
  if (order != Order::v_shape) return std::min(warm_up + 1, m * chunks);
  // Both chunks, before the first weight gradients and ever after (phases of plan_v); of a pair the
  // forward pass comes first (plan_pairs).
  return std::min<std::int64_t>(2 * ranks + (pairs ? 1 : 0), 2 * m);
}

std::int64_t RankSchedule::slots() const {
  const std::int64_t m = micro_batches;
  if (!flushes) return warm_up + 1;
  if (order == Order::straight) return std::min(warm_up + 1 + (split ? lag : 0), m);
  // interleaved: when chunk 0 of micro-batch i (place j of its group) ends, at most 2vp + j - 1
  // passes of the groups from its own on have begun, of which 2p of chunk 0.
  return std::min<std::int64_t>(2 * ranks, m);
}

Passes::Passes(const RankSchedule& s, StepOf which)
    : order_(s.order), micro_batches_(s.micro_batches),
      period_rounds_(s.order == Order::interleaved ? std::int64_t{s.ranks} * s.chunks : 1),
      last_backward_(s.micro_batches - 1), chunks_(s.chunks), ranks_(s.ranks) {
  if (!s.flushes)
    plan_without_flush(s, which);
  else if (s.order == Order::v_shape)
    s.pairs ? plan_pairs(s) : plan_v(s);
  else
    plan_line(s);
  settle();
}

void Passes::add(std::int64_t rounds, std::initializer_list<Phase::Step> steps) {
  if (rounds <= 0) return;
  PLANNER_CHECK(planned_ < kPhases, "more phases than a schedule has");
  Phase& phase = phases_[planned_++];
  phase.rounds = rounds;
  for (const Phase::Step& step : steps) phase.steps[static_cast<std::size_t>(phase.count++)] = step;
}

void Passes::plan_line(const RankSchedule& s) {
  const Phase::Step f{PassKind::forward};
  const std::int64_t all = s.micro_batches * s.chunks;
  const std::int64_t ahead = std::min(s.warm_up, all), pairs = all - ahead;
  add(ahead, {f});
  if (!s.split) {
    const Phase::Step b{PassKind::backward};
    add(pairs, {f, b});
    return add(ahead, {b});
  }
  const Phase::Step b{PassKind::input_gradient}, w{PassKind::weight_gradient};
  const std::int64_t lag = std::min(s.lag, all), alone = std::min(lag, pairs);
  add(alone, {f, b});
  add(pairs - alone, {f, b, w});
  add(lag - alone, {b});
  add(ahead - (lag - alone), {b, w});
  add(lag, {w});
}

// One step of a run; a run of one step is that of 1f1b. Forward passes beyond the run are left out.
void Passes::plan_without_flush(const RankSchedule& s, StepOf which) {
  PLANNER_CHECK(which.step >= 0 && which.step < which.steps, "a step outside of its run");
  const Phase::Step f{PassKind::forward}, b{PassKind::backward};
  const std::int64_t first = s.first_of(which.step);
  micro_batches_ = s.first_of(which.steps);
  last_backward_ = first + s.micro_batches - 1;
  counter(b) = first;
  if (which.step == 0)
    add(s.warm_up, {f});
  else
    counter(f) = first + s.warm_up;
  add(s.micro_batches, {f, b});
}

// Chunk 1 of rank r follows chunk 0 of rank p-1 back up the V. Fewer micro-batches than 2p - 1 are
// the same with passes left out.
void Passes::plan_v(const RankSchedule& s) {
  const std::int64_t p = s.ranks, r = s.rank, n = std::max(s.micro_batches, 2 * p - 1);
  const Phase::Step f0{PassKind::forward, 0}, f1{PassKind::forward, 1};
  const Phase::Step b0{PassKind::input_gradient, 0}, b1{PassKind::input_gradient, 1};
  const Phase::Step w0{PassKind::weight_gradient, 0}, w1{PassKind::weight_gradient, 1};
  add(2 * (p - r) - 1, {f0});
  add(r, {f1, f0});
  add(p - r, {f1, b1, w1});
  add(n - 2 * p + r + 1, {f0, b0, w0, f1, b1, w1});
  add(p - 1 - r, {b0, w0, f1, b1, w1});
  add(r, {b0, b1});
  add(p - r, {b0, w0});
  add(r, {w1, w0});
}

// The eight steps of DeepSeek's DualPipeV [dualpipe]: forward passes; both chunks in turn; backward
// passes with their weight gradients between; pairs; the last backward passes, of which the second
// half leaves its weight gradients to the end, where they are taken in the order in which they were
// left. A rank has at least 2p micro-batches: fewer are the same with passes left out.
void Passes::plan_pairs(const RankSchedule& s) {
  const std::int64_t p = s.ranks, r = s.rank, n = std::max(s.micro_batches, 2 * p);
  const Phase::Step f0{PassKind::forward, 0}, f1{PassKind::forward, 1};
  const Phase::Step b0{PassKind::input_gradient, 0}, b1{PassKind::input_gradient, 1};
  const Phase::Step w0{PassKind::weight_gradient, 0}, w1{PassKind::weight_gradient, 1};
  const std::int64_t behind = p - r - 1, last = r + 1, odd = last % 2, half = last / 2;
  add(2 * behind, {f0});
  add(last, {f0, f1});
  add(behind, {b1, w1, f1});
  add(n - 2 * p + last, {f0, b1, w1, f1, b0, w0});
  add(behind, {b1, w1, f1, b0, w0});
  add(half, {b1, w1, b0, w0});
  add(odd, {b1, w1, b0});
  add(half, {b1, b0});
  // Left so far: w0 where odd, and half times w1 w0. Each further b0 takes one and leaves w0.
  const std::int64_t first = std::min(odd, behind), rest = behind - first;
  const std::int64_t pairs = std::min(half, rest / 2), single = rest % 2 == 1 && pairs < half;
  add(first, {w0, b0});
  add(pairs, {w1, b0, w0, b0});
  add(single, {w1, b0});
  add(pairs < half ? 0 : rest - 2 * pairs, {w0, b0});
  add(odd - first + single, {w0});
  add(half - pairs - single, {w1, w0});
  add(behind, {w0});
}

Pass Passes::pass_of(const Phase::Step& step) const {
  const std::int64_t k = counter(step);
  if (order_ != Order::interleaved) return {step.kind, std::max(step.chunk, 0), k};
  const std::int64_t group = std::int64_t{ranks_} * chunks_;
  const int chunk = static_cast<int>(k % group / ranks_);
  return {step.kind, step.kind == PassKind::forward ? chunk : chunks_ - 1 - chunk,
          k / group * ranks_ + k % ranks_};
}

// To the next pass that is taken.
void Passes::settle() {
  while (phase_ < planned_) {
    const Phase& phase = phases_[phase_];
    if (step_ == phase.count) step_ = 0, ++round_;
    if (round_ == phase.rounds) {
      step_ = 0, round_ = 0, ++phase_;
      continue;
    }
    const Phase::Step& step = phase.steps[static_cast<std::size_t>(step_)];
    pass_ = pass_of(step);
    if (pass_.micro_batch < micro_batches_) return;
    ++counter(step);
    ++step_;
  }
  phase_ = kPhases;
}

void Passes::advance() {
  ++counter(phases_[phase_].steps[static_cast<std::size_t>(step_)]);
  ++step_;
  settle();
}

static bool same(const Phase::Step& a, const Phase::Step& b) {
  return a.kind == b.kind && a.chunk == b.chunk;
}

std::int64_t Passes::ordinary_periods() const {
  if (step_ != 0) return 0;
  const Phase& phase = phases_[phase_];
  std::int64_t periods = (phase.rounds - round_) / period_rounds_;
  for (int i = 0; i < phase.count && periods > 0; ++i) {
    const Phase::Step& step = phase.steps[static_cast<std::size_t>(i)];
    if (i >= 2 && same(step, phase.steps[static_cast<std::size_t>(i - 2)])) return 0;  // twice
    std::int64_t first = counter(step), beyond = last_of(step) - first;
    if (order_ == Order::interleaved) {  // by groups; one begun counts as begun anew
      first /= period_rounds_;
      beyond = (micro_batches_ - 1) / ranks_ - 1 - first;
    }
    periods = first == 0 ? 0 : std::min(periods, std::max<std::int64_t>(beyond, 0));
  }
  return periods;
}

std::int64_t Passes::alike_rounds() const {
  if (step_ != 0 || order_ == Order::v_shape) return 0;
  const Phase& phase = phases_[phase_];
  std::int64_t rounds = phase.rounds - round_;
  for (int i = 0; i < phase.count && rounds > 0; ++i) {
    const Phase::Step& step = phase.steps[static_cast<std::size_t>(i)];
    const std::int64_t micro_batch = pass_of(step).micro_batch;
    if (micro_batch == 0) return 0;
    rounds = std::min(rounds, last_of(step) - micro_batch);
    if (order_ == Order::interleaved) rounds = std::min(rounds, ranks_ - counter(step) % ranks_);
  }
  return rounds;
}

void Passes::skip_rounds(std::int64_t rounds) {
  const Phase& phase = phases_[phase_];
  for (int i = 0; i < phase.count; ++i)
    counter(phase.steps[static_cast<std::size_t>(i)]) += rounds;
  round_ += rounds;
  settle();
}

}  // namespace program
