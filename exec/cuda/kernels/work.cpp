// What the kernels compute, and the workspace they need.
#include <algorithm>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/host/work.hpp"
#include "sim/cost/launches.hpp"

namespace exec::cuda {

bool computes(const models::Operator& op) {
  return host::computes(op) && cost::has_kernels(op);
}

// Column sums, of gradients of biases and norms: 128 strips of two sums, of norms over the width of
// all heads as wide; attention: a number of each row and head; a table of tokens or of their types:
// two sums of each piece of its rows, at most 1,024. In f64.
std::size_t workspace_bytes(const models::Operator& op, std::int64_t samples) {
  using models::OpKind;
  constexpr std::int64_t kStrips = 128, kSums = 2;
  std::int64_t elements = kStrips * kSums * std::max(op.n, op.head_dim);
  if (op.kind == OpKind::width_norm) elements = kStrips * op.heads * op.head_dim;
  if (op.kind == OpKind::expert_linear) elements = 0;
  const bool product = op.kind == OpKind::linear || op.kind == OpKind::dense;
  if (product && op.parameters.size() < 2) elements = 0;
  if (op.kind == OpKind::softmax_max || op.kind == OpKind::softmax_sum ||
      op.kind == OpKind::cross_entropy)
    elements = 0;
  if (op.kind == OpKind::token_embedding || op.kind == OpKind::type_embedding) {
    const std::int64_t rows = samples * op.rows;
    elements = 2 * op.n * std::min(kTokenPieces, rows / kPieceRows + 1) + rows / 2 + 2;
  }
  if (op.kind == OpKind::attention) elements = samples * op.heads * op.rows;
  return static_cast<std::size_t>(elements) * sizeof(double);
}

}  // namespace exec::cuda
