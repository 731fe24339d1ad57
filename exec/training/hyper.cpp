#include "exec/training/hyper.hpp"

#include "core/check.hpp"

namespace exec {

using planner::OptimizerKind;

// sgd, adagrad (epsilon), rmsprop (epsilon), adamw (weight_decay): torch.optim 2.x defaults, where
// the papers give none; momentum 0.9: Sutskever et al., ICML 2013, its lowest setting. adagrad:
// Duchi et al., JMLR 2011. rmsprop: Hinton, Neural Networks for Machine Learning, lecture 6e, 2012.
// adadelta: Zeiler, arXiv 1212.5701. adam: Kingma and Ba, ICLR 2015. adamw: Loshchilov and Hutter,
// ICLR 2019. amsgrad: Reddi et al., ICLR 2018. adam8bit: adam's, as Dettmers et al., ICLR 2022.
Hyper default_hyper(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd: return {.learning_rate = 1e-3};
    case OptimizerKind::momentum: return {.learning_rate = 1e-3, .beta1 = 0.9};
    case OptimizerKind::adagrad: return {.learning_rate = 1e-2, .epsilon = 1e-10};
    case OptimizerKind::rmsprop: return {.learning_rate = 1e-3, .beta2 = 0.9, .epsilon = 1e-8};
    case OptimizerKind::adadelta: return {.learning_rate = 1.0, .beta2 = 0.95, .epsilon = 1e-6};
    case OptimizerKind::adamw: return {1e-3, 0.9, 0.999, 1e-8, 1e-2};
    case OptimizerKind::adam:
    case OptimizerKind::amsgrad:
    case OptimizerKind::adam8bit: return {1e-3, 0.9, 0.999, 1e-8, 0.0};
  }
  PLANNER_CHECK(false, "unknown optimizer");
  return {};
}

HyperUse hyper_use(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd: return {};
    case OptimizerKind::momentum: return {.beta1 = true};
    case OptimizerKind::adagrad: return {.epsilon = true};
    case OptimizerKind::rmsprop:
    case OptimizerKind::adadelta: return {.beta2 = true, .epsilon = true};
    default: return {true, true, true};
  }
}

}  // namespace exec
