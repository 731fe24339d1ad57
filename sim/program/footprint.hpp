#pragma once
// Footprints: what a straight line of allocations does to memory, as a small algebra, so that a
// whole step is summed from its routines without walking it.
//
// A footprint describes the change from an instant: `net` bytes afterwards, and the greatest excess
// over the starting level on the way (>= 0, the start counts). `then` joins two, `repeat` takes one
// k times in O(1): the levels of the k rounds form an arithmetic progression, so the peak is in the
// first round (net <= 0) or the last. Both are exact. The schedule of cursor.hpp,
//   begin  F(0)..F(n-1)  (B(i) F(n+i)) for i < m-n  B(m-n)..B(m-2)  L(m-1)  end,
// m micro-batches, n = in_flight(), is therefore a constant number of joins. Micro-batch 0 stands
// apart because actions may skip it. Pure; thread-safe.

#include <array>
#include <cstdint>
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
LiveFootprint then(const LiveFootprint& a, const LiveFootprint& b);
LiveFootprint repeat(const LiveFootprint& a, std::int64_t times);
inline void move_micro_batch(LiveFootprint&, std::int64_t) {}

// With every term. `where` is the call in which the live peak is first reached; block kNone: at the
// start.
struct TermFootprint {
  std::array<std::int64_t, kTerms> net{}, peaks{}, at_peak{};
  std::int64_t live_net = 0, live_peak = 0;
  Call where{kNone, 0, 0};
};
TermFootprint then(const TermFootprint& a, const TermFootprint& b);
TermFootprint repeat(const TermFootprint& a, std::int64_t times);
inline void move_micro_batch(TermFootprint& f, std::int64_t by) {
  f.where.micro_batch += static_cast<std::uint32_t>(by);
}

// Each routine's footprint. first: for micro-batch 0. The others are stated for micro-batch 0 too
// (their `where`); over_schedule() moves them.
template <class F>
struct RoutineFootprints {
  F begin, first_forward, forward, first_backward, backward, last_backward, end;
};

// F is LiveFootprint or TermFootprint. O(allocs and frees of the routines).
template <class F>
RoutineFootprints<F> routine_footprints(const RankClass& rank_class);

template <class F>
F over_schedule(const RoutineFootprints<F>& r, const Schedule& s) {
  const std::int64_t m = s.micro_batches, n = s.in_flight(), pairs = m - n;
  const auto at = [](F f, std::int64_t micro_batch) {
    move_micro_batch(f, micro_batch);
    return f;
  };
  F all = then(r.begin, r.first_forward);
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
  return then(all, at(r.end, m - 1));
}

}  // namespace program
