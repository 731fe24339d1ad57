#pragma once
// Attention where context ranks divide the rows: over keys that were gathered, or that come block
// by block round a ring. Private to backend/.

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/interpret/kernels.hpp"

namespace exec::cuda {

// REQUIRE cost::meets_other_ranks(op).
void context_forward(const Queue& q, const models::Operator& op, std::span<const Operand> args,
                     const KernelContext& context);
void context_input_gradient(const Queue& q, const models::Operator& op,
                            std::span<const Operand> args, const KernelContext& context);

}  // namespace exec::cuda
