#pragma once
// What kernel_table.cpp leaves: kernels of mixtures of experts, of what decoders have had since
// Llama, and of BERT's ends. Private to backend/.

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/interpret/kernels.hpp"

namespace exec::cuda {

void decoder_forward(const Queue& q, const models::Operator& op, std::span<const Operand> args,
                     const KernelContext& context);
void decoder_input_gradient(const Queue& q, const models::Operator& op,
                            std::span<const Operand> args, bool accumulate,
                            const KernelContext& context);
void decoder_weight_gradient(const Queue& q, const models::Operator& op,
                             std::span<const Operand> args, const KernelContext& context);

}  // namespace exec::cuda
