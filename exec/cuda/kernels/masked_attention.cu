// Attention in any type without a mask, of windows and of chunks, with capped scores, linear
// biases, sinks, heads of up to 256 and values of another width.
#include "exec/cuda/kernels/attention_rows.cuh"

namespace exec::cuda {
namespace {

constexpr int kSinkWarps = 32;         // of a head's block

// dsinks[head] -= sum over rows of e^(sink - lse) (dout . out): warps take rows in turn, sample by
// sample, then the warps'. Grid: {heads}, so each block must read all it can at a time.
template <class A>
__global__ __launch_bounds__(32 * kSinkWarps) void sink_gradient(
    Real dsinks, const A* dout, const A* out, const Compute<A>* lse, const A* sinks, Heads s,
    int64_t samples) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  __shared__ T of_warp[kSinkWarps];
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const T sink = widen(sinks[blockIdx.x]);
  const bool wide = s.dv % kSize == 0 && s.out_ld % kSize == 0 && aligned(out) && aligned(dout);
  T sum = T(0);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const Place at(s, sample, blockIdx.x);
    // Lanes keep their own parts of the sum: no row waits for the one before.
    PLANNER_UNROLL_BY(4)
    for (int64_t row = warp; row < s.seq; row += kSinkWarps) {
      const int64_t first = at.out + row * s.out_ld;
      const T weight = exp_of(sink - lse[at.statistic + row]);
      for (int64_t c = lane * kSize; c < s.dv; c += 32 * kSize) {
        T a[kSize], b[kSize], delta = T(0);
        load_pack(out + first, c, s.dv, wide, a);
        load_pack(dout + first, c, s.dv, wide, b);
        for (int j = 0; j < kSize; ++j) delta += a[j] * b[j];
        sum += weight * delta;
      }
    }
  }
  sum = over_warp(sum, Plus{});
  if (lane == 0) of_warp[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  T all = load_real<T>(dsinks, blockIdx.x);
  for (int w = 0; w < kSinkWarps; ++w) all -= of_warp[w];
  store_real(dsinks, blockIdx.x, all);
}

}  // namespace

void masked_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
                      View sinks) {
  rows_attention<Form::masked>(q, out, lse, qkv, Heads(s), s, sinks);
}
void masked_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                     View lse, const host::AttentionShape& s) {
  rows_attention_gradient<Form::masked>(q, dqkv, dout, qkv, out, lse, Heads(s), s);
}
void attention_sink_gradient(const Queue& q, View dsinks, View dout, View out, View lse,
                             View sinks, const host::AttentionShape& shape) {
  check_statistics(out.type, lse);
  with_type(one_type(dout, out, sinks), [&]<class A>() {
    launch(q, "attention_sink_gradient", {static_cast<unsigned>(shape.heads)}, {32 * kSinkWarps},
           0, sink_gradient<A>, real(dsinks), typed<A>(dout), typed<A>(out), typed<Compute<A>>(lse),
           typed<A>(sinks), Heads(shape), shape.samples);
  });
}

}  // namespace exec::cuda
