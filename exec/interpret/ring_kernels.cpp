// Attention over keys that come block by block round a ring of ranks (context_method=ring): what a
// step reads, which block is the first and the last, and where sums stand in between.
#include "exec/host/kernels.hpp"
#include "exec/interpret/kernel_parts.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec {

// qkv, out, lse, [sum], [keys]: steps 0, 1, ... The sum is out where activations have its type.
void ring_forward(const models::Operator& op, std::span<const Operand> a, const KernelContext& c,
                  host::Workspace ws) {
  const bool first = op.ring_step == 0, last = op.ring_step + 1 == op.ring_steps;
  const bool apart = a.size() > (first ? 3U : 4U);
  const host::View out = view(a[1]), sum = apart ? view(a[3]) : out;
  const host::View keys = first ? host::View{} : view(a.back());
  host::attention(sum, view(a[2]), view(a[0]), attention_shape(op, c), ws, keys);
  if (last && apart) host::cast(out, sum, a[1].elements);
}

// dout, qkv, out, lse, dqkv, [sum], then of every block but the own {gradients of its keys, keys}.
// Steps 1, 2, ..., then 0.
void ring_input_gradient(const models::Operator& op, std::span<const Operand> a,
                         const KernelContext& c, host::Workspace ws) {
  const bool first = op.ring_step == 1, own = op.ring_step == 0;
  const bool apart = a.size() > (own ? 5U : 7U);
  const std::int64_t q = op.heads * op.head_dim, kv = 2 * op.kv_heads * op.head_dim;
  const host::View d_qkv = view(a[4]), sum = apart ? view(a[5]) : d_qkv;
  if (first) host::fill_zero(sum, a[apart ? 5 : 4].elements);
  host::BlockGradients to{sum, apart ? q : q + kv, d_qkv.at(q), q + kv};
  if (!own) {
    to.d_keys = view(a[a.size() - 2]);
    to.key_columns = kv;
  }
  host::attention_block_gradient(to, view(a[0]), view(a[1]), view(a[2]), view(a[3]),
                                 attention_shape(op, c), ws, own ? host::View{} : view(a.back()));
  if (!own || !apart) return;
  for (std::int64_t row = 0; row < op.rows * c.samples; ++row)
    host::cast(d_qkv.at(row * (q + kv)), sum.at(row * q), q);
}

}  // namespace exec
