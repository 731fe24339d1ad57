#pragma once
// A trainer on one rank that must give every bit of what the executor gives on many: plain loops
// over data ranks, micro-batches and parameters. Of the Program it takes what it states about
// accumulation (Accumulation, spans, the flat order that spans cut) and nothing about how to
// compute. The model's passes are reference_model.hpp's. Not thread-safe.

#include <map>
#include <string>
#include <vector>

#include "exec/interpret/data_source.hpp"
#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/program/program.hpp"

namespace tests {

struct ReferenceResult {
  std::vector<double> losses;          // per step, summed over data ranks in ascending order
  std::map<std::string, std::vector<double>> weights;  // final trained parameters by path
};

// How the global batch divides: data ranks x grad_accum x micro_batch samples; and what of a
// product is made again by one of half its shape, for which OpenBLAS may pick other code.
struct Division {
  std::int64_t grad_accum = 1, micro_batch = 1;
  bool halves = false;
  // Of each pipeline stage: so many updates later than a step computes, its gradients are made with
  // (empty: none).
  std::vector<std::int64_t> delays{};
  std::int64_t delay(int stage) const {
    return delays.empty() ? 0 : delays[static_cast<std::size_t>(stage)];
  }
  std::int64_t loss_chunks = 1;        // runs of a rank's rows that the head takes
  planner::ContextMethod slicing = planner::ContextMethod::gather;
};

// REQUIRES: `stated` has tensor degree 1 and was lowered for this job.
ReferenceResult train_reference(const models::ModelSpec& spec, const planner::Job& job,
                                const program::Program& stated, const exec::DataSource& data,
                                Division division, std::int64_t steps, std::uint64_t seed);

}  // namespace tests
