#pragma once
// From an action to a kernel: arguments by the names of models/ops on one side, the functions of
// exec/cuda/kernels on the other. As exec/interpret/kernels.hpp does for the host.

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/interpret/kernels.hpp"

namespace exec::cuda {

// Launches a forward, input_gradient or weight_gradient action.
void launch_action(const Queue& queue, const program::Action& action, const models::Operator& op,
                   std::span<const Operand> args, const KernelContext& context);
// Of attention's input gradient, the part of its sinks, where they are trained.
void sink_gradient(const Queue& queue, const models::Operator& op, std::span<const Operand> args,
                   const KernelContext& context);

}  // namespace exec::cuda
