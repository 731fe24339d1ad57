#pragma once
// What kernels.cpp leaves to graph_kernels.cpp: operators of graphs (images, joins) and of ends
// that are no transformer's; that leaves mixtures of experts to expert_kernels.cpp, and it what
// decoders have had since Llama to decoder_kernels.cpp. Private to interpret/.

#include "exec/interpret/kernels.hpp"

namespace exec {

void graph_forward(const models::Operator& op, std::span<const Operand> args,
                   const KernelContext& context, host::Workspace workspace);
void graph_input_gradient(const models::Operator& op, std::span<const Operand> args,
                          bool accumulate, const KernelContext& context,
                          host::Workspace workspace);
void graph_weight_gradient(const models::Operator& op, std::span<const Operand> args,
                           const KernelContext& context, host::Workspace workspace);
void expert_forward(const models::Operator& op, std::span<const Operand> args,
                    const KernelContext& context, host::Workspace workspace);
void expert_input_gradient(const models::Operator& op, std::span<const Operand> args,
                           bool accumulate, const KernelContext& context,
                           host::Workspace workspace);
void expert_weight_gradient(const models::Operator& op, std::span<const Operand> args,
                            const KernelContext& context, host::Workspace workspace);
void decoder_forward(const models::Operator& op, std::span<const Operand> args,
                     const KernelContext& context);
void decoder_input_gradient(const models::Operator& op, std::span<const Operand> args,
                            bool accumulate, const KernelContext& context);
// One step of attention over keys that come round a ring.
void ring_forward(const models::Operator& op, std::span<const Operand> args,
                  const KernelContext& context, host::Workspace workspace);
void ring_input_gradient(const models::Operator& op, std::span<const Operand> args,
                         const KernelContext& context, host::Workspace workspace);

}  // namespace exec
