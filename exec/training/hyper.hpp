#pragma once
// The numbers of an optimizer's update. Value type; thread-compatible.

#include "planner/question/job.hpp"

namespace exec {

struct Hyper {
  double learning_rate = 0;
  double beta1 = 0;         // momentum; adam's first moment
  double beta2 = 0;         // decay of squared gradients (rmsprop's and adadelta's too)
  double epsilon = 0;
  double weight_decay = 0;  // adamw, adam8bit: w -= lr decay w; the others: g += decay w
  friend bool operator==(const Hyper&, const Hyper&) = default;
};

// The papers' values; frameworks' where a paper leaves them open (named in hyper.cpp).
Hyper default_hyper(planner::OptimizerKind kind);

// Which of them the optimizer reads, beside the learning rate and weight decay.
struct HyperUse {
  bool beta1 = false, beta2 = false, epsilon = false;
  int betas() const { return int{beta1} + int{beta2}; }
};
HyperUse hyper_use(planner::OptimizerKind kind);

}  // namespace exec
