#pragma once
// What an fp16 step's update does with gradients whose loss was multiplied: the rule of
// planner::LossScale. One source for the host and for kernels of a GPU, with the same bits. Pure.

#include <cstdint>

#include "planner/question/job.hpp"

#if defined(__CUDACC__)
#define PLANNER_HOST_AND_DEVICE __host__ __device__
#else
#define PLANNER_HOST_AND_DEVICE
#endif

namespace exec::host {

// The state that every rank keeps from step to step.
struct LossScaleState {
  double scale = 0;                    // of the next loss
  double since = 0;                    // steps since the scale changed last
  double updates = 0;                  // made so far
  double factor = 0;                   // of this step's gradients; 0: nothing is updated
  double correction1 = 1, correction2 = 1;  // what divides moments: 1 - beta^updates
};
static_assert(sizeof(LossScaleState) == planner::LossScale::kElements * sizeof(double));

// What changes no state.
struct LossScaleRule {
  double interval = 0;                 // steps until the scale is doubled; 0: it stays
  double most = 0;                     // scale
  double clip = 0;                     // greatest norm of the true gradients; 0: any
  double beta1 = 0, beta2 = 0;
};

// base^exponent of a whole exponent >= 0.
PLANNER_HOST_AND_DEVICE inline double whole_power(double base, double exponent) {
  double result = 1;
  for (auto n = static_cast<std::uint64_t>(exponent); n > 0; n >>= 1) {
    if ((n & 1U) != 0) result *= base;
    base *= base;
  }
  return result;
}

// norm: of the scaled gradients, whatever they are where one of them is not finite.
PLANNER_HOST_AND_DEVICE inline LossScaleState stepped(LossScaleState s, double norm,
                                                      const LossScaleRule& rule) {
  const double scale = s.scale;
  const bool finite = norm - norm == 0;
  s.since = finite ? s.since + 1 : 0;
  if (finite) {
    const double limit = rule.clip / (norm / scale + 1e-6);  // clip_scale()
    s.factor = (rule.clip > 0 && limit < 1 ? limit : 1) / scale;
    s.updates += 1;
    s.correction1 = 1 - whole_power(rule.beta1, s.updates);
    s.correction2 = 1 - whole_power(rule.beta2, s.updates);
  } else {
    s.factor = 0;
  }
  if (rule.interval == 0) return s;
  if (!finite) s.scale = scale > 2 ? scale / 2 : 1;
  if (s.since == rule.interval) {
    s.scale = 2 * scale < rule.most ? 2 * scale : rule.most;
    s.since = 0;
  }
  return s;
}

}  // namespace exec::host
