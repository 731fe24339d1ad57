#pragma once
// What tests of context parallelism share: models of few tokens, jobs, strategies. Pure.

#include <functional>
#include <string>

#include "tests/property/run_program.hpp"
#include "tests/property/strategies.hpp"

namespace tests {

// In f32 sums of 10^3 terms, each rounded at 6e-8, of random signs: 6e-8 sqrt(10^3) = 2e-6.
inline constexpr double kFloatTolerance = 1e-5;

inline models::ModelSpec with_tokens(models::ModelSpec spec, std::int64_t tokens) {
  spec.default_seq_len = tokens;
  spec.positions = tokens + 1;
  return spec;
}

inline planner::Job job_of(const models::ModelSpec& spec, const std::string& recipe) {
  planner::Job job = tiny_job(spec, 12, recipe);
  job.optimizer = planner::OptimizerKind::momentum;
  return job;
}

// `data` ranks by `context`, 12 samples, two at a time.
inline planner::Strategy sliced(std::int64_t data, std::int64_t context,
                                const std::function<void(planner::Strategy&)>& change = {}) {
  planner::Strategy s = strategy(data, 12, 2);
  s.context = context;
  if (change) change(s);
  return s;
}

inline constexpr planner::ContextMethod kContextMethods[] = {planner::ContextMethod::gather,
                                                             planner::ContextMethod::ring,
                                                             planner::ContextMethod::exchange};

inline planner::Strategy by_method(planner::ContextMethod method, std::int64_t data,
                                   std::int64_t context,
                                   const std::function<void(planner::Strategy&)>& change = {}) {
  planner::Strategy s = sliced(data, context, change);
  s.context_method = method;
  return s;
}

inline std::function<void(planner::Strategy&)> sharded_all(planner::Sharding how,
                                                            std::int64_t group = 0) {
  return [=](planner::Strategy& s) {
    s.sharding = how;
    s.shard_group = group > 0 ? group : s.data_ranks();
  };
}

}  // namespace tests
