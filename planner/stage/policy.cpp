#include "planner/stage/policy.hpp"

#include <algorithm>

#include "planner/stage/f8_weights.hpp"

namespace planner::stage {

bool waits_at_adapters(const Job& job, const hw_profiles::Framework& framework) {
  return job.lora_rank > 0 && !framework.gathers_ahead_of_adapters;
}

Policy policy_of(const Job& job, const hw_profiles::Framework& framework) {
  return {.stand_ins = framework.stand_ins,
          .wide_gradients = framework.wide_gradients && job.precision == core::DType::bf16,
          .root_unit = framework.root_unit,
          .next_unit = waits_at_adapters(job, framework),
          .one_in_k = framework.recomputes_one_in_k,
          .whole_scales = framework.whole_scales,
          .pass_gradients = framework.pass_gradients.value_or(false),
          .reducer_buckets = framework.reducer_buckets.value_or(false),
          .row_buffers = framework.row_buffers.value_or(0),
          .update_copies = framework.update_copies.value_or(false),
          .frozen_f8 = framework.frozen_f8.value_or(false) && job.precision == core::DType::f8,
          .weights_f8 = gathers_f8(job),
          .f8_orders = framework.f8_weight_orders.value_or(1),
          .casts_f8 = casts_by_action(job, framework) ? f8_scaling_from_name(job.fp8_scaling)
                                                      : std::nullopt,
          .dispatch_f8 = job.in_few_bits("dispatch"),
          .adapter_inputs = framework.adapter_inputs.value_or(false) && job.lora_rank > 0};
}

// Without pipelines the host is at most in the pass behind the one that the device computes. With
// them it waits for the device where it receives; before, it issues the forward passes of as many
// micro-batches as stages follow, of which the device computes one. A layer's pass makes two
// tensors of all rows that are then scattered.
std::int64_t rows_waiting(const hw_profiles::Framework& framework, const StagePasses& p) {
  constexpr std::int64_t kScattered = 2, kComputed = 1;
  const std::int64_t issued = p.stages > 1 ? std::min(p.stages - 1 - p.stage, p.micro_batches)
                                           : std::min<std::int64_t>(p.micro_batches, 2);
  const std::int64_t passes =
      p.stages > 1 ? std::max<std::int64_t>(0, issued - kComputed) : issued;
  return std::min<std::int64_t>(framework.rows_waiting.value_or(0),
                                kScattered * p.layers * passes);
}

}  // namespace planner::stage
