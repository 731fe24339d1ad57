#pragma once
// Optimizer updates on the host. Each slot is stored in its own type; arithmetic is in float, in
// double where the master (else the weight) is f64. With a master copy the master is updated and
// the weight is the rounded master. The step uses the unrounded new moments; what is stored is
// rounded once. Elementwise: updating a shard gives the bits of updating the whole (adam8bit: where
// shards start at multiples of kQuantBlock). Nothing allocated; thread-safe on disjoint elements.

#include <span>

#include "exec/host/loss_scale.hpp"
#include "exec/host/view.hpp"
#include "exec/training/hyper.hpp"
#include "planner/question/job.hpp"

namespace exec::host {

struct Parameters {
  View weight;              // the stored weight
  View master{};            // absent: the weight is its own master
  View gradient;
  std::int64_t n = 0;
  bool decays = false;      // weight decay applies
  // Gradients are scaled down to a norm of all of them (clip_scale), before anything else.
  const double* squares = nullptr;  // of that norm; null: gradients stay as they are
  double clip = 0;
  // In fp16 instead: what is multiplied out, and whether there is an update.
  const LossScaleState* loss_scale = nullptr;
};

// The rule of a run's loss scale, by Job::clip and the optimizer's numbers.
LossScaleRule loss_scale_rule(const planner::LossScale& scale, double clip, const Hyper& hyper);
// The factor of gradients: min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it.
double clip_scale(double squares, double clip);
// |x|^2 of n elements, in f64; the same for any type that holds these numbers.
double sum_of_squares(View x, std::int64_t n);

// One step (`step` counts from 1). slots: the m-like ones, then the v-like ones:
//   sgd none; momentum m; adagrad, rmsprop s; adadelta E[g^2], E[dx^2]; adam, adamw m, v;
//   amsgrad m, v, max v; adam8bit m codes, v codes (u8), m scales, v scales (f32, one per block).
// All zero before the first step.
void update(planner::OptimizerKind kind, const Hyper& hyper, std::int64_t step, const Parameters& p,
            std::span<const View> slots);

}  // namespace exec::host
