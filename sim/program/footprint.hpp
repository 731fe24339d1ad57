#pragma once
// Footprints: what a straight line of allocations does to memory, as a small algebra, so that a
// whole step is summed from its routines without walking it.
//
// A footprint describes the change from an instant: `net` bytes afterwards, and the greatest excess
// over the starting level on the way (>= 0, the start counts). `then` joins two, `repeat` takes one
// k times in O(1): the levels of the k rounds form an arithmetic progression, so the peak is in the
// first round (net <= 0) or the last. Both are exact. The passes of a schedule repeat with a period
// (schedule.hpp), so that a step is a number of joins that does not depend on how many
// micro-batches it has. Micro-batch 0 stands apart because actions may skip it, the last one
// because its backward pass reduces. Pure; thread-safe.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "sim/program/program.hpp"

namespace program {

// One alloc or free of a block.
struct Change {
  bool is_alloc = false;
  bool skips_first = false;            // not issued when the micro-batch is 0
  View view;
};

// The allocs and frees of each block of a class.
struct BlockChanges {
  struct One {
    std::vector<Change> changes;
    bool same_in_every_layer = true;   // no size depends on the layer
  };
  std::vector<One> blocks;
  bool any_skips_first = false;
};
BlockChanges block_changes(const RankClass& rank_class);

// Live bytes alone: what the closed form needs.
struct LiveFootprint {
  std::int64_t net = 0, peak = 0;
};
inline LiveFootprint then(const LiveFootprint& a, const LiveFootprint& b) {
  return {a.net + b.net, std::max(a.peak, a.net + b.peak)};
}
// `step`: micro-batches from one round to the next.
inline LiveFootprint repeat(const LiveFootprint& a, std::int64_t times, std::int64_t = 1) {
  if (times <= 0) return {};
  return {a.net * times, a.peak + std::max<std::int64_t>(a.net * (times - 1), 0)};
}
inline void move_micro_batch(LiveFootprint&, std::int64_t) {}

// With every term. `where` is the call in which the live peak is first reached; block kNone: at the
// start.
struct TermFootprint {
  std::array<std::int64_t, kTerms> net{}, peaks{}, at_peak{};
  std::int64_t live_net = 0, live_peak = 0;
  Call where{kNone, 0, 0};
};
TermFootprint then(const TermFootprint& a, const TermFootprint& b);
TermFootprint repeat(const TermFootprint& a, std::int64_t times, std::int64_t step = 1);
inline void move_micro_batch(TermFootprint& f, std::int64_t by) {
  f.where.micro_batch += static_cast<std::uint32_t>(by);
}

// Each routine's footprint, for micro-batch 0 and for the others. All are stated for micro-batch 0
// (their `where`); over_schedule() moves them.
template <class F>
struct RoutineFootprints {
  struct Chunk {
    F first_forward, forward, first_backward, backward, last_backward;
    F first_weight_gradient, weight_gradient, last_weight_gradient;
  };
  F begin, end, finish;
  std::vector<Chunk> chunks;
  // Without flush, of the one chunk: micro-batch 0 may be its step's last (otherwise empty).
  std::vector<F> only_backward;
  const F& of(const Pass& pass, std::int64_t micro_batches) const {
    const Chunk& c = chunks[static_cast<std::size_t>(pass.chunk)];
    const bool first = pass.micro_batch == 0, last = (pass.micro_batch + 1) % micro_batches == 0;
    if (pass.kind == PassKind::forward) return first ? c.first_forward : c.forward;
    if (pass.kind == PassKind::weight_gradient)
      return last    ? c.last_weight_gradient
             : first ? c.first_weight_gradient
                     : c.weight_gradient;
    if (last) return first && !only_backward.empty() ? only_backward[0] : c.last_backward;
    return first ? c.first_backward : c.backward;
  }
};

// F is LiveFootprint or TermFootprint. O(allocs and frees of the routines).
template <class F>
RoutineFootprints<F> routine_footprints(const RankClass& rank_class);

// The order F(0)..F(n-1) (B(i) F(n+i)) for i < m-n  B(m-n)..B(m-2) L(m-1) of whole backward passes,
// n = in_flight(): a constant number of joins.
template <class F>
F over_straight(const RoutineFootprints<F>& routines, const RankSchedule& s) {
  const auto& r = routines.chunks[0];
  const std::int64_t m = s.micro_batches, n = s.in_flight(), pairs = m - n;
  const auto at = [](F f, std::int64_t micro_batch) {
    move_micro_batch(f, micro_batch);
    return f;
  };
  F all = then(routines.begin, r.first_forward);
  all = then(all, repeat(at(r.forward, 1), n - 1));
  if (pairs > 0) {
    all = then(all, then(r.first_backward, at(r.forward, n)));
    all = then(all, repeat(then(at(r.backward, 1), at(r.forward, n + 1)), pairs - 1));
    all = then(all, repeat(at(r.backward, pairs), n - 1));
  } else if (m > 1) {
    all = then(all, r.first_backward);
    all = then(all, repeat(at(r.backward, 1), m - 2));
  }
  all = then(all, at(r.last_backward, m - 1));
  return then(all, at(routines.end, m - 1));
}

// The same for interleaved passes, run by run of passes that differ by their micro-batch alone.
// O(chunks), a few nanoseconds each.
LiveFootprint over_interleaved(const RoutineFootprints<LiveFootprint>& routines,
                               const RankSchedule& s);

// The passes of one step. O(1) with one chunk, else O(chunks): runs of rounds that take the same
// chunks, and periods of these, are repeated.
template <class F>
F over_passes(const RoutineFootprints<F>& r, const RankSchedule& s, StepOf which) {
  F all{};
  Passes passes(s, which);
  const auto take = [&](F& onto) {
    F f = r.of(passes.pass(), s.micro_batches);
    move_micro_batch(f, passes.pass().micro_batch);
    onto = then(onto, f);
    passes.advance();
  };
  // One pass, or a run of rounds of at most so many passes. Returns the passes taken.
  const auto take_run = [&](F& onto, std::int64_t most) -> std::int64_t {
    const std::int64_t count = passes.round_passes();
    const std::int64_t rounds = std::min(passes.alike_rounds(), most / count);
    if (rounds < 2) {
      take(onto);
      return 1;
    }
    F round{};
    Passes later = passes;
    later.skip_rounds(rounds);
    for (std::int64_t i = 0; i < count; ++i) take(round);
    passes = later;
    onto = then(onto, repeat(round, rounds));
    return rounds * count;
  };
  while (!passes.done()) {
    const std::int64_t periods = passes.ordinary_periods();
    if (periods < 2) {
      take_run(all, std::numeric_limits<std::int64_t>::max());
      continue;
    }
    const std::int64_t step = passes.period_micro_batches(), count = passes.period_passes();
    F period{};
    Passes later = passes;
    later.skip(periods);
    for (std::int64_t taken = 0; taken < count;) taken += take_run(period, count - taken);
    passes = later;
    all = then(all, repeat(period, periods, step));
  }
  return all;
}

// Without flush: a run that fills, is steady and drains, so that a longer one holds no more.
template <class F>
F over_run(const RoutineFootprints<F>& r, const RankSchedule& s) {
  F all{};
  const auto add = [&](F f, std::int64_t micro_batch) {
    move_micro_batch(f, micro_batch);
    all = then(all, f);
  };
  const std::int64_t steps = s.whole_run();
  for (std::int64_t step = 0; step < steps; ++step) {
    add(r.begin, s.first_of(step));
    add(over_passes(r, s, {step, steps}), 0);
    add(r.end, s.first_of(step + 1) - 1);
  }
  add(r.finish, s.first_of(steps) - 1);
  return all;
}

// Of a step; where pipelines do not flush, of a run.
template <class F>
F over_schedule(const RoutineFootprints<F>& r, const RankSchedule& s) {
  if (!s.flushes) return over_run(r, s);
  if (s.order == Order::straight && !s.split) return over_straight(r, s);
  if constexpr (std::is_same_v<F, LiveFootprint>)
    if (s.order == Order::interleaved) return over_interleaved(r, s);
  F end = r.end;
  move_micro_batch(end, s.micro_batches - 1);
  return then(then(r.begin, over_passes(r, s, {})), end);
}

}  // namespace program
