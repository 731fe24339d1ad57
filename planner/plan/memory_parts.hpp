#pragma once
// What a memory term of a planned candidate is made of: the strategy is lowered again, the step of
// the rank that the plan names is replayed to the first instant of its live peak, and the buffers
// that are alive there are listed. Exact: the parts of a term sum to the plan's figure. Pure;
// thread-safe. O(allocations of a step) for activations, O(buffers) for what persists.

#include <string>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"

namespace planner {

// All instances of one buffer, which differ in layer and micro-batch alone.
struct MemoryPart {
  program::Term term{};
  std::string buffer;                  // "attn.qkv.output"
  core::DType type{};
  std::int64_t instances = 0;
  core::Bytes bytes{};                 // together
  bool host = false;                   // in the memory of the host: no part of a term
};

// When the peak is first reached.
struct PeakMoment {
  int rank = 0;
  std::string block;                   // "layer.forward"; "" before the step
  std::int64_t layer = 0, micro_batch = 0;
};

struct MemoryParts {
  std::vector<MemoryPart> parts;       // greatest first, by term
  PeakMoment peak;
};

// Problems: a candidate that this version of the planner lowers to other bytes than the plan says.
core::Result<MemoryParts> memory_parts(const Plan& plan, const Candidate& candidate);

}  // namespace planner
