#include "exec/training/schedule.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace exec;
using planner::OptimizerKind;

namespace {

bool close(double a, double b) { return std::abs(a - b) <= 1e-15 * std::abs(b); }

TrainingWishes cosine() {
  TrainingWishes w;
  w.learning_rate = 1e-3;
  w.learning_rate_end = 1e-4;
  w.warmup_steps = 4;
  w.decay = Decay::cosine;
  w.decay_steps = 12;
  return w;
}

std::string problem(const TrainingWishes& wishes, OptimizerKind kind = OptimizerKind::adamw,
                    std::int64_t steps = 100) {
  return core::to_text(training_problems(wishes, kind, steps));
}

}  // namespace

TEST_CASE("the rate grows in a line, then falls along half a cosine to its end") {
  const Training t = training_of(cosine(), OptimizerKind::adamw, 100);
  CHECK(t.rate_at(0) == 1e-3 / 4);
  CHECK(t.rate_at(3) == 1e-3);
  CHECK(t.rate_at(4) == 1e-3);                       // r = 0
  CHECK(close(t.rate_at(8), 5.5e-4));                // r = 4/8, the cosine is 0
  // r = 2/8: (1 + cos(pi / 4)) / 2 = 0.853553390593274, 1e-4 + 9e-4 x that
  CHECK(close(t.rate_at(6), 1e-4 + 9e-4 * 0.85355339059327378));
  CHECK(close(t.rate_at(12), 1e-4));
  CHECK(close(t.rate_at(1000), 1e-4));
}

TEST_CASE("a linear decay ends at the run's last step unless it is told where") {
  TrainingWishes w;
  w.learning_rate = 2.0;
  w.decay = Decay::linear;
  const Training t = training_of(w, OptimizerKind::sgd, 8);
  CHECK(t.decay_steps == 8);
  for (std::int64_t s = 0; s <= 8; ++s) CHECK(t.rate_at(s) == 2.0 - 0.25 * static_cast<double>(s));
  w.decay_steps = 4;
  CHECK(training_of(w, OptimizerKind::sgd, 8).rate_at(2) == 1.0);
}

TEST_CASE("without wishes an optimizer has its defaults in every step") {
  for (const planner::Optimizer& o : planner::optimizers()) {
    const Training t = training_of({}, o.kind, 10);
    const Hyper usual = default_hyper(o.kind), h = t.at(7);
    CHECK(h.learning_rate == usual.learning_rate);
    CHECK(h.beta1 == usual.beta1);
    CHECK(h.beta2 == usual.beta2);
    CHECK(h.epsilon == usual.epsilon);
    CHECK(h.weight_decay == usual.weight_decay);
    CHECK(training_problems({}, o.kind, 1).empty());
  }
}

TEST_CASE("betas reach the moments that an optimizer has") {
  TrainingWishes w;
  w.betas = {0.8, 0.95};
  CHECK(training_of(w, OptimizerKind::adamw, 1).hyper.beta1 == 0.8);
  CHECK(training_of(w, OptimizerKind::adamw, 1).hyper.beta2 == 0.95);
  CHECK(problem(w, OptimizerKind::momentum).find("one number with momentum, found 2") !=
        std::string::npos);
  CHECK(problem(w, OptimizerKind::sgd).find("an optimizer that has any, found sgd") !=
        std::string::npos);
  w.betas = {0.8, std::nullopt};
  CHECK(training_of(w, OptimizerKind::momentum, 1).hyper.beta1 == 0.8);
  CHECK(training_of(w, OptimizerKind::rmsprop, 1).hyper.beta2 == 0.8);
  CHECK(problem(w).find("two numbers with adamw") != std::string::npos);
}

TEST_CASE("what cannot be trained with is refused, each with its option") {
  const auto refused = [](auto change, std::string_view expected,
                          OptimizerKind kind = OptimizerKind::adamw) {
    TrainingWishes w = cosine();
    change(w);
    INFO(problem(w, kind));
    CHECK(problem(w, kind).find(expected) != std::string::npos);
    CHECK(training_problems(w, kind, 100).size() == 1);
  };
  CHECK(training_problems(cosine(), OptimizerKind::adamw, 100).empty());
  refused([](auto& w) { w.weight_decay = -0.1; }, "--weight-decay: expected a number that is not");
  refused([](auto& w) { w.epsilon = INFINITY; }, "--eps");
  refused([](auto& w) { w.learning_rate_end = 2e-3; }, "--lr-end: expected at most the learning");
  refused([](auto& w) { w.warmup_steps = 12; }, "--warmup: expected fewer steps than the decay");
  refused([](auto& w) { w.betas = {1.0, 0.5}; }, "--betas: expected numbers from 0 to below 1");
  refused([](auto& w) { w.betas = {0.5, std::nan("")}; }, "--betas");
  refused([](auto& w) { w.decay = Decay::constant, w.decay_steps.reset(); }, "--lr-end");
  refused([](auto& w) { w.weight_decay = 0.1; }, "--weight-decay", OptimizerKind::adam8bit);
  refused([](auto& w) { w.epsilon = 1.0; }, "--eps: expected an optimizer that reads it",
          OptimizerKind::sgd);
  TrainingWishes negative;
  negative.learning_rate = -1;
  CHECK(problem(negative).find("--lr: expected a number that is not negative, found -1") !=
        std::string::npos);
  TrainingWishes late;                 // the decay ends with the run
  late.decay = Decay::cosine;
  late.warmup_steps = 5;
  CHECK(training_problems(late, OptimizerKind::adamw, 6).empty());
  CHECK(problem(late, OptimizerKind::adamw, 5).find("ends at step 5") != std::string::npos);
}

TEST_CASE("the text of a schedule has all that the optimizer reads, and nothing else") {
  CHECK(to_text(training_of(cosine(), OptimizerKind::adamw, 1), OptimizerKind::adamw) ==
        "lr 0.001, warm-up over 4 steps, cosine to 0.0001 at step 12, betas 0.9, 0.999, eps 1e-08, "
        "weight decay 0.01");
  CHECK(to_text(default_training(OptimizerKind::sgd), OptimizerKind::sgd) ==
        "lr 0.001, weight decay 0");
  CHECK(to_text(default_training(OptimizerKind::rmsprop), OptimizerKind::rmsprop) ==
        "lr 0.001, beta 0.9, eps 1e-08, weight decay 0");
}
