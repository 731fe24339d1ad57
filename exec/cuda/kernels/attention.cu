// Plainly causal attention in any type, rotary positions, and which kernels compute an attention:
// those of tensor_attention.cu where it fits them, else these or those of masked_attention.cu.
#include "exec/cuda/kernels/attention_rows.cuh"

namespace exec::cuda {
namespace {

// Pair (i, i + half) of each head of q and k turns by position base^(-2 i / rotated) [rope]; one
// thread a row and pair, angles in f64.
template <class A>
__global__ void turn(A* qkv, int64_t rows, int64_t columns, int64_t normed, int64_t d, int64_t half,
                     int64_t seq, Positions at_rows, double direction, double base) {
  using T = Compute<A>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * half) return;
  const int64_t r = at / half, i = at % half;
  const double angle = static_cast<double>(at_rows.of(r % seq)) *
                       pow(base, -static_cast<double>(i) / static_cast<double>(half));
  const T cosine = static_cast<T>(cos(angle)), sine = static_cast<T>(direction * sin(angle));
  for (int64_t h = 0; h < normed; ++h) {
    A* const head = qkv + r * columns + h * d + i;
    const T a = widen(head[0]), b = widen(head[half]);
    narrow(a * cosine - b * sine, head[0]);
    narrow(a * sine + b * cosine, head[half]);
  }
}

// Whether attention_rows.cuh has it without a mask of any kind.
bool is_plain(const host::AttentionShape& s) {
  return plainly_causal(s) && s.head_dim <= kPlainWidth;
}

}  // namespace

void rotate(const Queue& q, View qkv, const host::HeadShape& s, const host::Rotation& rotation) {
  const int64_t half = rotation.rotated / 2;
  with_type(qkv.type, [&]<class A>() {
    launch(q, "rotate", {blocks_of(s.rows * half, 256)}, {256}, 0, turn<A>, typed<A>(qkv), s.rows,
           s.columns(), s.heads + s.kv_heads, s.head_dim, half, rotation.seq,
           positions(rotation.places), rotation.inverse ? -1.0 : 1.0, rotation.base);
  });
}

void plain_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
                     View sinks) {
  if (sinks || !is_plain(s)) return masked_attention(q, out, lse, qkv, s, sinks);
  rows_attention<Form::plain>(q, out, lse, qkv, Heads(s), s, {});
}
void plain_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                    View lse, const host::AttentionShape& s) {
  if (!is_plain(s)) return masked_attention_input_gradient(q, dqkv, dout, qkv, out, lse, s);
  rows_attention_gradient<Form::plain>(q, dqkv, dout, qkv, out, lse, Heads(s), s);
}

void attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& shape,
               View sinks) {
  check_statistics(qkv.type, lse);
  const bool fits = fits_tensor_cores(shape, {out, qkv});
  (fits ? tensor_attention : plain_attention)(q, out, lse, qkv, shape, sinks);
}

void attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out, View lse,
                              const host::AttentionShape& shape) {
  check_statistics(qkv.type, lse);
  const bool fits = fits_tensor_cores(shape, {dqkv, dout, qkv, out});
  (fits ? tensor_attention_input_gradient : plain_attention_input_gradient)(q, dqkv, dout, qkv, out,
                                                                            lse, shape);
}

}  // namespace exec::cuda
