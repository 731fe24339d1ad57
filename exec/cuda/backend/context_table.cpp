#include "exec/cuda/backend/context_table.hpp"

#include "exec/cuda/backend/kernel_table.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec::cuda {
namespace {

using models::Operator;
using Args = std::span<const Operand>;

// Columns of a row of qkv.
struct Columns {
  explicit Columns(const host::AttentionShape& s)
      : q(s.heads * s.head_dim), keys(s.key_columns()), out(s.heads * s.values()) {}
  std::int64_t q, keys, out;
  std::int64_t all() const { return q + keys; }
  RowsAt keys_in(const View& qkv) const { return {qkv.at(q), all()}; }
};

// Of a ring, sums of the blocks so far: apart in the statistics' type, or the results themselves.
template <class Names>
RowsAt sums(const Names& a, RowsAt results, std::int64_t columns) {
  return a.has("sum") ? RowsAt{a["sum"], columns} : results;
}

// The step that has met the blocks of all ranks writes the results; the first finds none before it.
template <class Names>
void merge(const Queue& q, const Names& a, RowsAt keys, const Operator& op,
           const host::AttentionShape& s) {
  const RowsAt out{a["out"], Columns(s).out}, so_far = sums(a, out, out.ld);
  const bool last = op.ring_step + 1 == op.ring_steps;
  block_attention(q, last ? out : so_far, op.ring_step > 0 ? so_far : RowsAt{}, a["lse"], a["qkv"],
                  keys, s);
}

}  // namespace

void context_forward(const Queue& q, const Operator& op, Args args, const KernelContext& c) {
  const host::AttentionShape s = attention_shape(op, c);
  const Columns columns(s);
  if (op.ring_steps == 0) {
    const Forward<ops::attention> a(op, args);
    return block_attention(q, {a["out"], columns.out}, {}, a["lse"], a["qkv"],
                           {a["keys"], columns.keys}, s, own_heads(a["sinks"], op, c));
  }
  if (op.ring_step == 0) {
    const Forward<ops::ring_own> a(op, args);
    return merge(q, a, columns.keys_in(a["qkv"]), op, s);
  }
  const Forward<ops::ring_block> a(op, args);
  merge(q, a, {a["keys"], columns.keys}, op, s);
}

// Of a ring: steps 1, 2, ..., then 0, which has a rank's own keys.
void context_input_gradient(const Queue& q, const Operator& op, Args args,
                            const KernelContext& c) {
  const host::AttentionShape s = attention_shape(op, c);
  const Columns columns(s);
  if (op.ring_steps == 0) {
    const InputGradient<ops::attention> a(op, args);
    sink_gradient(q, op, args, c);
    const RowsAt keys{a["keys"], columns.keys};
    return block_attention_input_gradient(q, {{a["d_qkv"], columns.all()}, {}, keys}, a["d_out"],
                                          a["qkv"], a["out"], a["lse"], keys, s);
  }
  if (op.ring_step == 0) {
    const InputGradient<ops::ring_own> a(op, args);
    const RowsAt dq{a["d_qkv"], columns.all()};
    return block_attention_input_gradient(
        q, {dq, sums(a, dq, columns.q), columns.keys_in(a["d_qkv"])}, a["d_out"], a["qkv"],
        a["out"], a["lse"], columns.keys_in(a["qkv"]), s);
  }
  const InputGradient<ops::ring_block> a(op, args);
  const RowsAt so_far = sums(a, {a["d_qkv"], columns.all()}, columns.q);
  block_attention_input_gradient(
      q, {so_far, op.ring_step > 1 ? so_far : RowsAt{}, {a["d_keys"], columns.keys}}, a["d_out"],
      a["qkv"], a["out"], a["lse"], {a["keys"], columns.keys}, s);
}

}  // namespace exec::cuda
