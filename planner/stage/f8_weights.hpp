#pragma once
// Which products are in 8 bits, and of their weights those that data ranks gather as codes
// (fp8_tensors: params). How codes are stored and gathered is policy.hpp's. A gathered code takes a
// byte. Scales are left out: one of f32 for a tensor, or for 128 x 128 weights, takes less than a
// thousandth of the codes' bytes. So are the greatest values that ranks tell each other for the
// scales. Pure.

#include <vector>

#include "hw_profiles/profile.hpp"
#include "models/graph.hpp"
#include "planner/question/job.hpp"

namespace planner::stage {

inline bool gathers_f8(const Job& job) {
  return job.in_few_bits("params") && job.mode != Mode::inference && job.lora_rank == 0;
}

// Whether what products read is cast by actions of the Program: those of this tool's executor.
inline bool casts_by_action(const Job& job, const hw_profiles::Framework& framework) {
  return job.precision == core::DType::f8 && framework.executor_kernels.value_or(false);
}

// By operator of a segment, in topological order: whether it is a product in 8 bits. Those of
// routers and gates are computed in 16 bits (NVIDIA/Megatron-LM d98e8a6,
// core/transformer/moe/router.py); so are heads, adapters, and what is not as wide as 8-bit tensor
// cores want: a multiple of 16 bytes (cuBLAS library documentation, cublasLtMatmul).
std::vector<bool> products_in_f8(const models::Segment& segment);

// By parameter of a layer: whether products read it in 8 bits, and its data ranks may gather it so.
// What tensor ranks store alike, each with a part of its gradient, is gathered in 16 bits: its
// gradients are summed with those of the norms.
std::vector<bool> read_in_f8(const models::Segment& layer);

}  // namespace planner::stage
