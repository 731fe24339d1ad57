// What the kernels compute, and the workspace they need.
#include <algorithm>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/host/work.hpp"

namespace exec::cuda {

bool computes(const models::Operator& op) {
  using models::OpKind;
  const bool routes = op.kind == OpKind::top_k || op.kind == OpKind::dispatch ||
                      op.kind == OpKind::expert_linear || op.kind == OpKind::combine;
  const bool narrow = op.kind != OpKind::attention || op.head_dim <= 128;
  return host::computes(op) && narrow && !routes;
}

// Column sums: 128 strips of two sums; attention: a number of each row and head. In f64.
std::size_t workspace_bytes(const models::Operator& op, std::int64_t samples) {
  constexpr std::int64_t kStrips = 128, kSums = 2;
  std::int64_t elements = kStrips * kSums * std::max(op.n, op.head_dim);
  if (op.kind == models::OpKind::attention)
    elements = std::max(elements, samples * op.heads * op.rows);
  return static_cast<std::size_t>(elements) * sizeof(double);
}

}  // namespace exec::cuda
