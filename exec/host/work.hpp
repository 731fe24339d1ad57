#pragma once
// What each kernel computes and moves: FLOPs and bytes by operator, pass and types, so that a
// measured duration can be set against the machine's roofline. FLOPs follow the conventions of
// models/graph.hpp (GEMM 2 m n k; attention the full square; exp and tanh one each). Bytes are
// each operand once: what a perfect cache would move. Stateless, thread-safe.

#include <span>
#include <string_view>

#include "core/dtype.hpp"
#include "core/units.hpp"
#include "models/graph.hpp"

namespace exec::host {

enum class Pass : std::uint8_t { forward, input_gradient, weight_gradient };

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

// One call on `samples` samples; both 0 for passes that do not exist and for collectives.
Work work(models::OpKind kind, Pass pass, const models::Operator& op, std::int64_t samples,
          const KernelTypes& types);

// The table of what this backend runs. A pass it lacks has an empty name.
struct KernelInfo {
  models::OpKind kind;
  std::string_view forward, input_gradient, weight_gradient;  // functions of kernels.hpp
};
std::span<const KernelInfo> kernel_table();

// Whether the kernels compute this operator as it is meant: its kind, and its variant.
bool computes(const models::Operator& op);

// Scratch that any pass of the operator needs on `samples` samples.
core::Bytes workspace_bytes(const models::Operator& op, std::int64_t samples,
                            const KernelTypes& types);

}  // namespace exec::host
