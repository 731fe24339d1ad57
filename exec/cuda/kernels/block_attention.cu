// Attention over keys that lie apart from the queries' rows: of all context ranks, or one block of
// several that come round a ring.
#include "exec/cuda/kernels/attention_rows.cuh"

namespace exec::cuda {

// Keys in the rows of qkv are a rank's own, which its queries see as if there were no others.
ApartHeads::ApartHeads(const host::AttentionShape& s, RowsAt at, RowsAt into, RowsAt earlier)
    : Heads(s), keys(at.first.data), count(s.key_rows()), row(at.ld),
      queries(s.keys > 0 ? Positions{s.early, s.early_at, s.late_at} : Positions{s.seq, 0, 0}),
      block(s.block), early_keys(s.early_keys), late_keys(s.late_keys),
      query_places(positions(s.biases.queries)), key_places(positions(s.biases.keys)),
      to(real(into.first)), before(real(earlier.first)), to_ld(into.ld), before_ld(earlier.ld) {}

namespace {

// Whether its rows begin at multiples of 16 bytes, in the 16-bit types that tensor cores take.
bool rows_are_aligned(RowsAt rows) { return rows.ld % 8 == 0; }

}  // namespace

void block_attention(const Queue& q, RowsAt out, RowsAt before, View lse, View qkv, RowsAt keys,
                     const host::AttentionShape& shape, View sinks) {
  check_statistics(qkv.type, lse);
  PLANNER_CHECK(!sinks || !before.first, "a sink takes part once");
  const ApartHeads s(shape, keys, out, before);
  if (fits_tensor_cores(shape, {qkv, keys.first}) && rows_are_aligned(keys))
    return tensor_block_attention(q, lse, qkv, s, shape, sinks);
  rows_attention<Form::apart>(q, {}, lse, qkv, s, shape, sinks);
}

void block_attention_input_gradient(const Queue& q, const BlockGradients& to, View dout, View qkv,
                                    View out, View lse, RowsAt keys,
                                    const host::AttentionShape& shape) {
  check_statistics(qkv.type, lse);
  one_type(qkv, keys.first, to.dkeys.first);
  ApartHeads s(shape, keys, to.dq, to.before);
  s.dkeys = to.dkeys.first.data;
  s.dkeys_ld = to.dkeys.ld;
  if (fits_tensor_cores(shape, {qkv, keys.first, to.dkeys.first, dout, out}) &&
      rows_are_aligned(keys) && rows_are_aligned(to.dkeys))
    return tensor_block_attention_input_gradient(q, dout, qkv, out, lse, s, shape);
  rows_attention_gradient<Form::apart>(q, {}, dout, qkv, out, lse, s, shape);
}

}  // namespace exec::cuda
