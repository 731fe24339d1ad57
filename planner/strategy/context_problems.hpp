#pragma once
// Internal: what dividing the tokens of a sample (context, context_method) asks of a strategy.
// Pure.

#include "core/result.hpp"
#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Whether the ranks of a strategy could exchange heads (context_method=exchange): each then has as
// many key heads.
inline bool exchange_divides(std::int64_t kv_heads, const Strategy& s) {
  return kv_heads % (s.tensor * s.context) == 0;
}

// Appends a problem for each rule that does not hold. REQUIRES: degrees are at least 1.
void add_context_problems(const models::ModelSpec& spec, const Job& job, const Strategy& strategy,
                          core::Problems& problems);

}  // namespace planner
