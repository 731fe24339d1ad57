#include "exec/training/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "core/check.hpp"

namespace exec {
namespace {

std::int64_t given(const std::array<std::optional<double>, 2>& betas) {
  return std::ranges::count_if(betas, [](const auto& beta) { return beta.has_value(); });
}

class Check {
 public:
  Check(const TrainingWishes& wishes, planner::OptimizerKind optimizer, std::int64_t steps)
      : w_(wishes), optimizer_(optimizer), steps_(steps) {}

  core::Problems run() {
    not_negative("--lr", w_.learning_rate);
    not_negative("--lr-end", w_.learning_rate_end);
    not_negative("--weight-decay", w_.weight_decay);
    not_negative("--eps", w_.epsilon);
    betas();
    // Its blocks of 256 elements take no notice of where a parameter ends.
    if (w_.weight_decay && optimizer_ == planner::OptimizerKind::adam8bit)
      add("--weight-decay", "an optimizer that decays matrices alone", name(), "leave it out");
    if (w_.epsilon && !hyper_use(optimizer_).epsilon)
      add("--eps", "an optimizer that reads it", name(), "leave it out");
    schedule();
    return std::move(problems_);
  }

 private:
  void add(std::string where, std::string expected, std::string found, std::string fix = "") {
    problems_.push_back(
        {std::move(where), std::move(expected), std::move(found), std::move(fix)});
  }
  std::string name() const { return std::string(planner::optimizer(optimizer_).name); }

  void not_negative(const char* option, const std::optional<double>& value) {
    if (value && !(*value >= 0 && std::isfinite(*value)))
      add(option, "a number that is not negative", fmt::format("{}", *value));
  }

  void betas() {
    const std::int64_t count = given(w_.betas);
    if (count == 0) return;
    const int reads = hyper_use(optimizer_).betas();
    if (count != reads)
      add("--betas",
          reads == 0   ? "an optimizer that has any"
          : reads == 1 ? "one number with " + name()
                       : "two numbers with " + name() + ", as 0.9,0.95",
          reads == 0 ? name() : std::to_string(count), reads == 0 ? "leave it out" : "");
    for (const auto& beta : w_.betas)
      if (beta && !(*beta >= 0 && *beta < 1))
        add("--betas", "numbers from 0 to below 1", fmt::format("{}", *beta));
  }

  void schedule() {
    const Decay decay = w_.decay.value_or(Decay::constant);
    const std::int64_t warmup = w_.warmup_steps.value_or(0);
    if (decay == Decay::constant) {
      for (const auto& [asked, option] : {std::pair(w_.learning_rate_end.has_value(), "--lr-end"),
                                          std::pair(w_.decay_steps.has_value(), "--decay-steps")})
        if (asked) add(option, "--decay cosine or linear beside it", "--decay constant");
      return;
    }
    const double rate = w_.learning_rate.value_or(default_hyper(optimizer_).learning_rate);
    if (w_.learning_rate_end && *w_.learning_rate_end > rate)
      add("--lr-end", fmt::format("at most the learning rate {}", rate),
          fmt::format("{}", *w_.learning_rate_end));
    const std::int64_t end = w_.decay_steps.value_or(steps_);
    if (warmup >= end)
      add("--warmup", fmt::format("fewer steps than the decay, which ends at step {}", end),
          std::to_string(warmup), "shorten the warm-up, or ask for more --decay-steps or --steps");
  }

  const TrainingWishes& w_;
  planner::OptimizerKind optimizer_;
  std::int64_t steps_;
  core::Problems problems_;
};

}  // namespace

std::string_view name(Decay decay) {
  constexpr std::array<std::string_view, kDecays.size()> kNames{"constant", "cosine", "linear"};
  return kNames[static_cast<std::size_t>(decay)];
}

double Training::rate_at(std::int64_t step) const {
  const double top = hyper.learning_rate;
  if (step < warmup_steps)
    return top * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (decay == Decay::constant) return top;
  const double r = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                     static_cast<double>(decay_steps - warmup_steps));
  const double left = decay == Decay::linear ? 1 - r : (1 + std::cos(std::numbers::pi * r)) / 2;
  return learning_rate_end + (top - learning_rate_end) * left;
}

Hyper Training::at(std::int64_t step) const {
  Hyper h = hyper;
  h.learning_rate = rate_at(step);
  return h;
}

Training default_training(planner::OptimizerKind optimizer) {
  return {.hyper = default_hyper(optimizer)};
}

core::Problems training_problems(const TrainingWishes& wishes, planner::OptimizerKind optimizer,
                                 std::int64_t steps) {
  return Check(wishes, optimizer, steps).run();
}

Training training_of(const TrainingWishes& w, planner::OptimizerKind optimizer,
                     std::int64_t steps) {
  Training t = default_training(optimizer);
  Hyper& h = t.hyper;
  h.learning_rate = w.learning_rate.value_or(h.learning_rate);
  h.weight_decay = w.weight_decay.value_or(h.weight_decay);
  h.epsilon = w.epsilon.value_or(h.epsilon);
  const HyperUse use = hyper_use(optimizer);
  PLANNER_CHECK(given(w.betas) == 0 || given(w.betas) == use.betas(), "betas were checked");
  if (use.beta1) h.beta1 = w.betas[0].value_or(h.beta1);
  if (use.beta2) h.beta2 = w.betas[use.beta1 ? 1 : 0].value_or(h.beta2);
  t.warmup_steps = w.warmup_steps.value_or(0);
  t.decay = w.decay.value_or(Decay::constant);
  if (t.decay == Decay::constant) return t;
  t.decay_steps = w.decay_steps.value_or(steps);
  t.learning_rate_end = w.learning_rate_end.value_or(0);
  return t;
}

std::string to_text(const Training& t, planner::OptimizerKind optimizer) {
  const Hyper& h = t.hyper;
  const HyperUse use = hyper_use(optimizer);
  std::string text = fmt::format("lr {}", h.learning_rate);
  if (t.warmup_steps > 0)
    text += fmt::format(", warm-up over {} step{}", t.warmup_steps, t.warmup_steps > 1 ? "s" : "");
  if (t.decay != Decay::constant)
    text += fmt::format(", {} to {} at step {}", name(t.decay), t.learning_rate_end, t.decay_steps);
  if (use.betas() > 1) text += fmt::format(", betas {}, {}", h.beta1, h.beta2);
  if (use.betas() == 1) text += fmt::format(", beta {}", use.beta1 ? h.beta1 : h.beta2);
  if (use.epsilon) text += fmt::format(", eps {}", h.epsilon);
  return text + fmt::format(", weight decay {}", h.weight_decay);
}

}  // namespace exec
