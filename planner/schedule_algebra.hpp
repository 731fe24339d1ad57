#pragma once
// What a pipeline schedule leaves idle, from the times of one micro-batch's passes through a rank
// [megatron2021, zero-bubble]. p ranks, m micro-batches, v chunks a rank; F, B, W: picoseconds of
// the forward pass, input gradients and weight gradients, over all chunks of the slowest rank.
// On equal ranks with free messages (symbols as above; derived, tested by playing the
// passes):
//   gpipe, 1f1b   (p-1)(F+B+W)
//   interleaved   (p-1)(F+B+W) / v
//   zb_h1         (p-1)(F + max(B-W, 0)), m >= p
//   zb_h2         (p-1) max(F+B-2W, 0) as a period; at least (p-1)F where the step's end joins the
//                 ranks (tied embeddings), m >= 2p-1
//   zb_v          played, over at most 2p+1 micro-batches: more of them leave it unchanged
// naive is one stage after the other: its stages' other turns, which its caller knows.
// No optimizer here needs a global norm, so that zb_h2 and zb_v run from step to step without a
// pause; tied embeddings, which add two ranks' gradients, end that for zb_h2 (zb_v keeps them on
// one rank). Pure; thread-safe.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/strategy.hpp"
#include "sim/program/schedule.hpp"

namespace planner {

struct PassTimes {
  std::int64_t forward = 0, input_gradient = 0, weight_gradient = 0;  // picoseconds
  std::int64_t sum() const { return forward + input_gradient + weight_gradient; }
};

struct Idle {
  std::int64_t makespan = 0;           // of a step that begins and ends with all ranks at rest
  std::int64_t period = 0;             // of the rank with most idle time, step after step
};

// The mean of the other p - 1 ranks, where `all` ranks take this much together. REQUIRES: p > 1.
PassTimes mean_of_others(const PassTimes& all, const PassTimes& own, std::int64_t p);

// Plays the passes of equal ranks: each begins when its rank is free and its input is there. Whole
// backward passes take B + W. O(passes).
Idle played_idle(const std::vector<program::Schedule>& ranks, const PassTimes& chunk);

// What messages of so many picoseconds keep the ranks waiting in a step, beside the bubble. Fill
// and drain pass 2(p-1) of them. In between, the passes F_k(0) .. F_k(p-1) B(p-1) .. B(0) and their
// 2(p-1) messages are back at rank 0 after p slots, which are no shorter (1f1b; zb_h1, where W is
// left out on the way). Where ranks are further apart (gpipe, interleaved, zb_h2) it is the receive
// of a pass, which begins when the rank comes to it: both messages of every slot. Derived; held
// against the sweep.
// REQUIRES: as bubble().
std::int64_t message_waits(const Strategy& strategy, const PassTimes& rank, std::int64_t message);

// Idle picoseconds of a step. REQUIRES: p > 1, a schedule but none, naive and the stale ones.
std::int64_t bubble(const Strategy& strategy, const PassTimes& rank, bool joined_at_end);

}  // namespace planner
