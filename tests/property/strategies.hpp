#pragma once
// Strategies of the property tests: small, with several buckets in a tiny model. Pure functions.

#include <functional>

#include "planner/strategy/strategy.hpp"

namespace tests {

// `data` ranks on `batch` samples, micro_batch samples at a time; then changed.
inline planner::Strategy strategy(std::int64_t data, std::int64_t batch, std::int64_t micro_batch,
                                  const std::function<void(planner::Strategy&)>& change = {}) {
  planner::Strategy s;
  s.data = data;
  s.micro_batch = micro_batch;
  s.grad_accum = batch / data / micro_batch;
  s.bucket_bytes = 20000;
  if (change) change(s);
  return s;
}

inline void ring(planner::Strategy& s) { s.grad_sync = planner::GradSync::ring; }
inline void tree(planner::Strategy& s) { s.grad_sync = planner::GradSync::tree; }
inline void naive_all_reduce(planner::Strategy& s) {
  s.grad_sync = planner::GradSync::naive_all_reduce;
}
inline std::function<void(planner::Strategy&)> servers(std::int64_t count, bool colocated) {
  return [=](planner::Strategy& s) {
    s.grad_sync = planner::GradSync::parameter_server;
    s.servers = count;
    s.servers_colocated = colocated;
  };
}
inline std::function<void(planner::Strategy&)> sharded(planner::Sharding how,
                                                       std::int64_t group = 0) {
  return [=](planner::Strategy& s) {
    s.sharding = how;
    s.shard_group = group > 0 ? group : s.data;
  };
}
// Three degrees on 12 samples, two at a time.
inline planner::Strategy mesh(std::int64_t data, std::int64_t tensor, std::int64_t pipeline,
                              planner::Sharding sharding = planner::Sharding::none) {
  planner::Strategy s = strategy(data, 12, 2);
  s.tensor = tensor;
  s.pipeline = pipeline;
  if (pipeline > 1) s.schedule = planner::Schedule::one_f_one_b;
  if (sharding != planner::Sharding::none) sharded(sharding)(s);
  return s;
}
inline std::function<void(planner::Strategy&)> recomputing(planner::Checkpoint how,
                                                           std::int64_t every = 2) {
  return [=](planner::Strategy& s) {
    s.checkpoint = how;
    s.checkpoint_every = how == planner::Checkpoint::every_k ? every : 0;
  };
}
// `count` pipeline stages for each data rank.
inline std::function<void(planner::Strategy&)> stages(std::int64_t count,
                                                      planner::Schedule schedule) {
  return [=](planner::Strategy& s) {
    s.pipeline = count;
    s.schedule = schedule;
  };
}

}  // namespace tests
