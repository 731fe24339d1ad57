#include "planner/stage/policy.hpp"

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
          .whole_scales = framework.whole_scales};
}

}  // namespace planner::stage
