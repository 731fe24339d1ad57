// What attention takes.
#include <algorithm>

#include "sim/cost/action.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/launches.hpp"

namespace cost {
namespace {

using program::Action;
using program::ActionKind;

// NVIDIA/Megatron-LM, fused_softmax.py, is_kernel_available: batch x heads is a multiple of 4.
constexpr std::int64_t kFusedSoftmaxHeads = 4;

// The most keys that a query sees.
std::int64_t longest_reach(const models::Operator& op) {
  std::int64_t keys = op.keys;
  for (const std::int64_t most : {op.window_keys, op.chunk_keys})
    if (most > 0) keys = std::min(keys, most);
  return keys;
}

}  // namespace

core::Seconds ActionCost::attention_pass_time(const models::Operator& op,
                                              const Action& action) const {
  const bool forward = action.kind == ActionKind::forward;
  const core::DType type = buffer(action, 0).type;
  const std::int64_t moved = forward ? op.elements_forward : op.elements_backward;
  const core::Bytes bytes = core::bytes_of(moved * samples_, type);
  core::Seconds time{};
  core::Seconds host = machine_->host.attention;
  if (machine_->score_passes > 0) {
    const std::int64_t heads = op.heads * samples_;
    // The kernel that makes a softmax in one takes whole groups of heads; else several do.
    const bool falls_back = heads % kFusedSoftmaxHeads != 0;
    const double passes = falls_back ? machine_->unfused_passes : machine_->score_passes;
    if (falls_back) host = machine_->host.unfused;
    time = scores_time({op.rows, op.keys, heads, op.head_dim, forward, passes}, type, *machine_) +
           memory_time(bytes, *machine_);
  } else {
    const core::Flops square = forward ? op.flops_forward : op.flops_input_gradient;
    const AttentionKernel kernel = attention_kernel(op, forward, samples_, *machine_);
    time = attention_time({.flops = square * static_cast<double>(samples_),
                           .seq_len = longest_reach(op), .head_dim = op.head_dim,
                           .forward = forward, .causal = op.causal,
                           .on_vectors = machine_->executor_kernels && on_vectors(op),
                           .own = kernel.own, .blocks = kernel.blocks},
                          type, bytes, *machine_);
  }
  return with_host(time, host, *machine_);
}

}  // namespace cost
