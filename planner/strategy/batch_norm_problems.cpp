#include "planner/strategy/batch_norm_problems.hpp"

#include <algorithm>

namespace planner {

static bool has_batch_norm(const models::ModelSpec& spec) {
  return std::ranges::any_of(spec.graph.operators, [](const models::OperatorSpec& op) {
    return op.kind == models::OperatorSpec::Kind::batch_norm;
  });
}

void add_batch_norm_problems(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                             Failures& failures_) {
  if (s.batch_norm == BatchNorm::local) return;
  NEED(has_batch_norm(spec), "batch_norm", "local for a model without a batch norm",
       "synchronised");
  NEED(job.mode != Mode::inference, "batch_norm", "local for inference", "synchronised");
  NEED(s.shares.empty(), "batch_norm", "local with shares", "synchronised",
       "data ranks add up statistics in each micro-batch, so all need equally many");
  NEED(s.server_mode == ServerMode::sync, "batch_norm", "local with server_mode=async",
       "synchronised", "workers of an asynchronous step do not wait for each other");
}

}  // namespace planner
