// What the kernels compute, and the workspace they need.
#include <algorithm>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/host/work.hpp"

namespace exec::cuda {

bool computes(const models::Operator& op) {
  using models::OpKind;
  switch (op.kind) {
    case OpKind::top_k:
    case OpKind::dispatch:
    case OpKind::expert_linear:
    case OpKind::combine:
    case OpKind::type_embedding:
    case OpKind::first_token:
    case OpKind::convolution:
    case OpKind::max_pool:
    case OpKind::average_pool:
    case OpKind::local_response_norm:
    case OpKind::dropout:
    case OpKind::concat:
    case OpKind::cut_send:
    case OpKind::cut_receive:
    case OpKind::cut_sent:
    case OpKind::scale:
    case OpKind::soft_cap:
    case OpKind::relu_squared:
    case OpKind::geglu:
    case OpKind::clamped_swiglu:
    case OpKind::row_gate:
    case OpKind::latent_join:
    case OpKind::square_sums:
    case OpKind::width_norm:
    case OpKind::batch_norm: return false;
    case OpKind::attention: {
      const bool plain = op.window_keys == 0 && op.chunk_keys == 0 && op.soft_cap == 0 &&
                         op.score_scale == 0 && op.parameters.empty() && op.value_dim == 0;
      return host::computes(op) && op.head_dim <= 128 && op.causal && !op.alibi && plain;
    }
    case OpKind::rms_norm: return host::computes(op) && op.gamma_offset == 0;
    case OpKind::qk_norm:
      return host::computes(op) && op.gamma_offset == 0 && !op.parameters.empty();
    case OpKind::layer_norm: return host::computes(op) && op.parameters.size() == 2;
    default: return host::computes(op);
  }
}

// Column sums, of gradients of biases and norms: 128 strips of two sums; attention: a number of
// each row and head; the token table: two sums of each piece of its rows, at most 1,024. In f64.
std::size_t workspace_bytes(const models::Operator& op, std::int64_t samples) {
  using models::OpKind;
  constexpr std::int64_t kStrips = 128, kSums = 2;
  std::int64_t elements = kStrips * kSums * std::max(op.n, op.head_dim);
  const bool product = op.kind == OpKind::linear || op.kind == OpKind::dense;
  if (product && op.parameters.size() < 2) elements = 0;
  if (op.kind == OpKind::softmax_max || op.kind == OpKind::softmax_sum ||
      op.kind == OpKind::cross_entropy)
    elements = 0;
  if (op.kind == OpKind::token_embedding) {
    const std::int64_t rows = samples * op.rows;
    elements = 2 * op.n * std::min(kTokenPieces, rows / kPieceRows + 1) + rows / 2 + 2;
  }
  if (op.kind == OpKind::attention) elements = samples * op.heads * op.rows;
  return static_cast<std::size_t>(elements) * sizeof(double);
}

}  // namespace exec::cuda
