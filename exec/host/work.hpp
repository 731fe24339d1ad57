#pragma once
// What each kernel computes and moves: FLOPs and bytes by operator, kernel and types, so that a
// measured duration can be set against the machine's roofline. FLOPs follow the conventions of
// models/graph.hpp (GEMM 2 m n k; attention the full square; exp and tanh one each). Bytes are
// each operand once: what a perfect cache would move. Stateless, thread-safe.

#include "core/dtype.hpp"
#include "core/units.hpp"
#include "models/graph.hpp"

namespace exec::host {

struct KernelTypes {
  core::DType activation = core::DType::f32;
  core::DType statistic = core::DType::f32;
  core::DType weight = core::DType::f32;    // as the kernel reads it
  core::DType gradient = core::DType::f32;  // of parameters
};

struct Work {
  core::Flops flops;
  core::Bytes bytes;
};

// One call on `samples` samples, by the function that the operator's schema names; both 0 for
// kernels that do not exist and for transfers.
Work work(models::ops::Kernel kernel, const models::Operator& op, std::int64_t samples,
          const KernelTypes& types);

// Whether the kernels compute this variant of the operator as it is meant.
bool computes(const models::Operator& op);

// Scratch that any pass of the operator needs on `samples` samples.
core::Bytes workspace_bytes(const models::Operator& op, std::int64_t samples,
                            const KernelTypes& types);

}  // namespace exec::host
