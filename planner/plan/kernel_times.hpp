#pragma once
// Where the compute time of a planned step goes, kernel by kernel: the strategy is lowered again,
// and what the costs say of each kernel of a rank's step is added up by what it is. Beside it the
// roofline [williams2009]: how long the device's data sheet says that the same work takes at least,
// max(FLOPs / peak, bytes / memory bandwidth), with each operand moved once. Where a framework's
// kernels are predicted to take less, because one kernel does the work of several operators and
// does not move what passes between them, the roofline is the prediction. Pure; thread-safe.
// O(actions of the routines).

#include <string>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"

namespace planner {

// All kernels of a rank's step that do the same: they differ in layer and micro-batch alone.
struct KernelTime {
  std::string kernel;                  // "forward attn.qkv", "optimizer"
  std::int64_t count = 0;              // in a step
  core::Seconds time{};                // predicted, launches included; of all of them, as below
  core::Flops flops{};                 // a multiply-add counts two
  core::Bytes bytes{};                 // each operand once
  core::Seconds roofline{};            // of work on the host: as predicted
  bool by_compute = false;             // FLOPs, not bytes, set the roofline
};

struct KernelTimes {
  int rank = 0;                        // the one whose kernels take the longest
  std::vector<KernelTime> kernels;     // the longest first
  core::Seconds time{}, roofline{};    // sums
  // Of `time`, what the host takes to issue kernels, longer than these last.
  core::Seconds host{};
};

// Problems: a strategy that this version of the planner refuses.
core::Result<KernelTimes> kernel_times(const Plan& plan, const Candidate& candidate);

}  // namespace planner
