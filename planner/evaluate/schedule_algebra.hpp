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
//   pipedream, pipedream_2bw   zero as a period [pipedream, pipedream-2bw]; (p-1)(B+W) where the
//                 step's end joins the ranks: the last one's next pass waits for the first one's
// Of others (zb_v, dualpipe_v) the passes are played, over at most 2p+1 micro-batches: more of them
// leave it unchanged. naive is one stage after the other: its stages' other turns, which its caller
// knows.
// No optimizer here needs a global norm, so that zb_h2 and zb_v run from step to step without a
// pause; tied embeddings, which add two ranks' gradients, end that for zb_h2 (zb_v keeps them on
// one rank). Pure; thread-safe.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/evaluate/pipeline_play.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// The mean of the other p - 1 ranks, where `all` ranks take this much together. REQUIRES: p > 1.
PassTimes mean_of_others(const PassTimes& all, const PassTimes& own, std::int64_t p);

// One message over each link of a pipeline, in picoseconds.
struct Messages {
  std::int64_t all = 0;                // from the model's first chunk to its last
  std::int64_t slowest = 0;            // link
  std::int64_t busiest = 0;            // what the rank with the slowest links sends in a slot
};

// links: from each of the p > 1 ranks to the next one; of the last to the first (where `chunks` are
// more than one).
Messages messages_over(std::span<const std::int64_t> links, std::int64_t chunks);

// Whether bubble() is a formula, as above; else it plays passes, too slow for every candidate.
bool has_formula(Schedule schedule);

// What messages keep the ranks waiting in a step, beside the bubble. Fill and drain pass each link
// once. In between a message travels while the rank before and the rank after compute, so that a
// slot is longer only where the links are: its two messages take longer than its passes, or the
// passes F_k(0) .. F_k(p-1) B(p-1) .. B(0) and their messages take longer than the slots that
// rank 0 has until B(0): p of them (1f1b; zb_h1, where W is left out on the way; pipedream and
// pipedream_2bw, which never drain), 2p-1 (zb_h2; interleaved, where the first limit is sooner).
// Schedules without a formula are played, with their mean message. Derived; held against the sweep.
// REQUIRES: as bubble().
std::int64_t message_waits(const Strategy& strategy, const PassTimes& rank,
                           const Messages& messages);

// By how much later than the first rank a rank begins its passes and sooner ends them, where
// `before` is what one micro-batch takes on the ranks before it: what follows its last pass
// (gradients to reduce, the update) hides there. Under schedules that fill this with weight
// gradients, or never drain: 0.
std::int64_t slack(const Strategy& strategy, std::int64_t before);

// Idle picoseconds of a step. joined_at_end: the ends of the pipeline sum tied gradients after
// their last pass, or all ranks the norm of theirs. REQUIRES: p > 1, a schedule but none and naive.
std::int64_t bubble(const Strategy& strategy, const PassTimes& rank, bool joined_at_end);

}  // namespace planner
