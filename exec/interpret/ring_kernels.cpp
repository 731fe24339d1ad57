// Attention over keys that come block by block round a ring of ranks (context_method=ring): which
// block is the first and the last, and where sums stand in between.
#include "exec/host/kernels.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/kernel_parts.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec {
namespace {

using models::Operator;
using Args = std::span<const Operand>;

// keys: of the block; without data: those of qkv.
template <class Names>
void merge(const Names& a, host::View keys, const Operator& op, const KernelContext& c,
           host::Workspace ws) {
  const bool last = op.ring_step + 1 == op.ring_steps;
  const host::View sum = a.has("sum") ? a["sum"] : a["out"];
  host::attention(sum, a["lse"], a["qkv"], attention_shape(op, c), ws, keys);
  if (last && a.has("sum")) host::cast(a["out"], sum, a.operand("out").elements);
}

// What a step adds to: the gradients of queries in the sum or in d_qkv, those of its keys.
template <class Names>
host::BlockGradients targets(const Names& a, const Operator& op) {
  const std::int64_t q = op.heads * op.head_dim, kv = 2 * op.kv_heads * op.head_dim;
  const bool apart = a.has("sum");
  return {apart ? a["sum"] : a["d_qkv"], apart ? q : q + kv, a["d_qkv"].at(q), q + kv};
}

template <class Names>
void add(const Names& a, const host::BlockGradients& to, host::View keys, const Operator& op,
         const KernelContext& c, host::Workspace ws) {
  host::attention_block_gradient(to, a["d_out"], a["qkv"], a["out"], a["lse"],
                                 attention_shape(op, c), ws, keys);
}

}  // namespace

// Steps 0, 1, ...
void ring_forward(const Operator& op, Args args, const KernelContext& c, host::Workspace ws) {
  if (op.ring_step == 0) return merge(Forward<ops::ring_own>(op, args), {}, op, c, ws);
  const Forward<ops::ring_block> a(op, args);
  merge(a, a["keys"], op, c, ws);
}

// Steps 1, 2, ..., then 0.
void ring_input_gradient(const Operator& op, Args args, const KernelContext& c,
                         host::Workspace ws) {
  const std::int64_t q = op.heads * op.head_dim, kv = 2 * op.kv_heads * op.head_dim;
  if (op.ring_step > 0) {
    const InputGradient<ops::ring_block> a(op, args);
    const Operand& sum = a.has("sum") ? a.operand("sum") : a.operand("d_qkv");
    if (op.ring_step == 1) host::fill_zero(view(sum), sum.elements);
    host::BlockGradients to = targets(a, op);
    to.d_keys = a["d_keys"];
    to.key_columns = kv;
    return add(a, to, a["keys"], op, c, ws);
  }
  const InputGradient<ops::ring_own> a(op, args);
  add(a, targets(a, op), {}, op, c, ws);
  if (!a.has("sum")) return;
  for (std::int64_t row = 0; row < op.rows * c.samples; ++row)
    host::cast(a["d_qkv"].at(row * (q + kv)), a["sum"].at(row * q), q);
}

}  // namespace exec
