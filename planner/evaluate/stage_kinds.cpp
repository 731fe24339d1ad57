#include "planner/evaluate/stage_kinds.hpp"

namespace planner {

cost::KindsOfRanks kinds_of_stage(const Question& q, const Strategy& s, std::int64_t stage) {
  const std::int64_t stride = stride_of(s, Degree::pipeline);
  const bool outermost = stride * s.pipeline == q.gpus;
  return outermost
             ? cost::kinds_of_ranks(*q.machine.mixed, stage * stride, (stage + 1) * stride)
             : cost::kinds_of_ranks(*q.machine.mixed, 0, q.gpus);
}

}  // namespace planner
