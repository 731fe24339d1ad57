#pragma once
// RankSchedule: in which order a rank takes the passes of its micro-batches, as a few numbers.
//
// A schedule is a short list of phases, each a short round of passes taken several times:
//   none, naive, gpipe, 1f1b   F^w (F B)^(m-w) B^w, warm-up w = 0, 0, m, p-r-1
//   interleaved [megatron2021] the same over m x v passes, w = 2(p-r-1) + (v-1)p; pass k is of
//                              chunk k % pv / p and micro-batch k / pv x p + k % p (backward
//                              passes take the chunks in descending order)
//   zb_h1, zb_h2 [zero-bubble] B makes input gradients alone; the weight gradients W follow `lag`
//                              micro-batches behind: w = p-r-1, lag r and w = 2(p-r-1), lag 2r
//   zb_v [zb-v]          two chunks in V shape (r and 2p-1-r), phases of plan_v()
//   dualpipe_v [dualpipe] the same chunks, phases of plan_pairs(): a forward pass of one chunk and
//                        a backward pass of the other follow each other and may overlap
//   pipedream_2bw [pipedream-2bw], pipedream [pipedream] (of one micro-batch a step)
//                        1f1b that never flushes: w = p-r-1 forward passes fill the pipeline before
//                        the first step, each step is (F B)^m, its forward passes w micro-batches
//                        ahead and so of later steps at its end, and the last step leaves out those
//                        that no step has. Micro-batches are numbered through the run
// on rank r of p with m micro-batches and v chunks. Micro-batches ascend in each kind and chunk.
// Passes yields them in O(1) memory, and can leave out whole periods. Pure values; thread-safe.

#include <array>
#include <cstdint>

namespace program {

enum class PassKind : std::uint8_t {
  forward,
  backward,         // input and weight gradients together
  input_gradient,
  weight_gradient,
};

struct Pass {
  PassKind kind{};
  int chunk = 0;
  std::int64_t micro_batch = 0;
  friend bool operator==(const Pass&, const Pass&) = default;
};

enum class Order : std::uint8_t { straight, interleaved, v_shape };

// Which step of a run: where pipelines flush all are alike.
struct StepOf {
  std::int64_t step = 0, steps = 1;
};

struct RankSchedule {
  std::int64_t micro_batches = 1;
  std::int64_t warm_up = 0;            // forward passes before the first backward pass
  Order order = Order::straight;
  bool pairs = false;                  // v_shape: passes follow plan_pairs()
  bool split = false;                  // weight gradients are passes of their own
  std::int64_t lag = 0;                // micro-batches that they follow behind (straight)
  int chunks = 1;                      // parts of the model on this rank
  int ranks = 1, rank = 0;             // of the pipeline (interleaved, v_shape, without flush)
  bool flushes = true;                 // false: straight, the warm-up is the run's, not the step's
  // Without flush: a micro-batch of step s computes, in both directions, with the weights that
  // s - delay updates made (the first ones for s <= delay).
  std::int64_t delay = 0;

  // Forward passes, of any chunk, whose backward pass has not ended, at the worst moment.
  std::int64_t in_flight() const;
  // Micro-batches of one chunk whose tensors are alive at once: the slots of its buffers. A bound
  // for several chunks, exact for one.
  std::int64_t slots() const;
  // Without flush: steps at the end of a run in which some rank leaves forward passes out, as many
  // as those until all are steady. 0: each step is whole.
  std::int64_t draining_steps() const {
    return flushes ? 0 : (ranks - 1 + micro_batches - 1) / micro_batches;
  }
  // Steps of a run that fills, is steady for one step at least, and drains.
  std::int64_t whole_run() const { return 2 * draining_steps() + 1; }
  // Of micro-batch 0 of a step.
  std::int64_t first_of(std::int64_t step) const { return flushes ? 0 : step * micro_batches; }
};

// `count` steps, taken `rounds` times. chunk -1: as the order says.
struct Phase {
  struct Step {
    PassKind kind{};
    int chunk = -1;
  };
  std::int64_t rounds = 0;
  int count = 0;
  std::array<Step, 6> steps{};
};

class Passes {
 public:
  explicit Passes(const RankSchedule& schedule, StepOf which = {});

  bool done() const { return phase_ == kPhases; }
  // REQUIRES: !done() (of all below).
  Pass pass() const { return pass_; }
  void advance();

  // Forward and backward passes take turns.
  bool steady() const { return phases_[phase_].count > 1; }
  // At the start of a round: how many whole periods follow in which no pass is of micro-batch 0 or
  // of the last one. A period is a number of rounds after which all repeats, so many micro-batches
  // later. 0 inside of a round.
  std::int64_t ordinary_periods() const;
  std::int64_t period_passes() const { return period_rounds_ * phases_[phase_].count; }
  std::int64_t period_micro_batches() const { return order_ == Order::interleaved ? ranks_ : 1; }
  void skip(std::int64_t periods) { skip_rounds(periods * period_rounds_); }
  // At the start of a round: how many rounds from here on take the same chunks, one micro-batch
  // later each time, without micro-batch 0 or the last one; 0 where there is none, or inside of a
  // round. O(steps of a round).
  std::int64_t alike_rounds() const;
  std::int64_t round_passes() const { return phases_[phase_].count; }
  // REQUIRES: at the start of a round; no pass of these rounds is left out.
  void skip_rounds(std::int64_t rounds);

 private:
  static constexpr std::size_t kPhases = 15;
  using Counter = std::array<std::int64_t, 2>;  // of each chunk, or the first of all chunks

  void plan_line(const RankSchedule& s);
  void plan_without_flush(const RankSchedule& s, StepOf which);
  void plan_v(const RankSchedule& s);
  void plan_pairs(const RankSchedule& s);
  void add(std::int64_t rounds, std::initializer_list<Phase::Step> steps);
  std::int64_t& counter(const Phase::Step& step) {
    return counters_[static_cast<std::size_t>(step.kind)]
                    [static_cast<std::size_t>(step.chunk < 0 ? 0 : step.chunk)];
  }
  std::int64_t counter(const Phase::Step& step) const {
    return const_cast<Passes*>(this)->counter(step);
  }
  Pass pass_of(const Phase::Step& step) const;
  std::int64_t last_of(const Phase::Step& step) const {
    return step.kind == PassKind::forward ? micro_batches_ - 1 : last_backward_;
  }
  void settle();

  std::array<Phase, kPhases> phases_{};
  std::array<Counter, 4> counters_{};  // passes taken, by kind
  Order order_;
  std::int64_t micro_batches_, period_rounds_;  // of the run
  std::int64_t last_backward_;         // micro-batch, whose backward pass reduces
  int chunks_, ranks_;
  std::size_t phase_ = 0, planned_ = 0;
  std::int64_t round_ = 0;
  int step_ = 0;
  Pass pass_{};
};

}  // namespace program
