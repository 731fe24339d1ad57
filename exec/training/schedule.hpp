#pragma once
// The learning rate of each step, and what else a run tells its optimizer. Steps count from 0 in
// code, from 1 for people. Value types, thread-compatible; the functions are pure.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "exec/training/hyper.hpp"

namespace exec {

enum class Decay : std::uint8_t { constant, cosine, linear };
inline constexpr std::array kDecays{Decay::constant, Decay::cosine, Decay::linear};
std::string_view name(Decay decay);

// What a user asked for; what is empty takes its default. Trivially copyable.
struct TrainingWishes {
  std::optional<double> learning_rate, learning_rate_end, weight_decay, epsilon;
  std::array<std::optional<double>, 2> betas;  // as given: one for an optimizer that has one
  std::optional<std::int64_t> warmup_steps, decay_steps;
  std::optional<Decay> decay;
  friend bool operator==(const TrainingWishes&, const TrainingWishes&) = default;
};

// What a run does. The rate of step s (from 0), with W warm-up steps and a decay over D steps, is
//   hyper.learning_rate (s + 1) / W                   where s < W
//   end + (hyper.learning_rate - end) f(s)            after that, with
//     cosine: f = (1 + cos(pi r)) / 2, linear: f = 1 - r, constant: f = 1,
//     r = (s - W) / (D - W), at most 1
// as karpathy/llm.c, llmc/schedulers.h.
struct Training {
  Hyper hyper;                         // learning_rate: the greatest
  std::int64_t warmup_steps = 0;
  Decay decay = Decay::constant;
  std::int64_t decay_steps = 0;        // counted from the first step; 0: constant
  double learning_rate_end = 0;        // from the decay's last step on

  double rate_at(std::int64_t step) const;
  // The numbers of the update of that step.
  Hyper at(std::int64_t step) const;
};

// What the optimizer gets where nothing is asked for: its defaults, all the time.
Training default_training(planner::OptimizerKind optimizer);

// What is wrong with the wishes for a run of `steps` steps; each problem names the option of
// `planner exec`.
core::Problems training_problems(const TrainingWishes& wishes, planner::OptimizerKind optimizer,
                                 std::int64_t steps);
// steps: the run's last step, where a decay ends unasked. REQUIRES: training_problems() is empty.
Training training_of(const TrainingWishes& wishes, planner::OptimizerKind optimizer,
                     std::int64_t steps);

// "lr 0.0006, warm-up over 10 steps, cosine to 6e-05 at step 100, betas 0.9, 0.95, eps 1e-08,
// weight decay 0.1": all that the optimizer reads, numbers as they are.
std::string to_text(const Training& training, planner::OptimizerKind optimizer);

}  // namespace exec
