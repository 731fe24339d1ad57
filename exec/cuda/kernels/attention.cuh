#pragma once
// Where the heads of an attention lie.

#include <cmath>
#include <initializer_list>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {

struct Heads {
  explicit Heads(const host::AttentionShape& s)
      : seq(s.seq), ld(s.qkv_columns()), out_ld(s.heads * s.head_dim),
        heads(static_cast<int>(s.heads)), kv_heads(static_cast<int>(s.kv_heads)),
        d(static_cast<int>(s.head_dim)), scale(1.0 / std::sqrt(static_cast<double>(s.head_dim))) {}
  int64_t seq, ld, out_ld;
  int heads, kv_heads, d;
  double scale;
};

// Offsets of one head of one sample: of its first row of q, k, v, out, and of its statistics.
struct Place {
  PLANNER_DEVICE Place(const Heads& s, int64_t sample, int64_t head)
      : q(sample * s.seq * s.ld + head * s.d),
        k(sample * s.seq * s.ld + (s.heads + head / (s.heads / s.kv_heads)) * s.d),
        v(k + static_cast<int64_t>(s.kv_heads) * s.d),
        out(sample * s.seq * s.out_ld + head * s.d), statistic((sample * s.heads + head) * s.seq) {}
  int64_t q, k, v, out, statistic;
};

// Whether tensor_attention.cu computes it: 16-bit views, each aligned to 16 bytes; heads of a
// multiple of 8, at most 128.
bool fits_tensor_cores(const host::AttentionShape& s, std::initializer_list<View> views);
// REQUIRE that. As attention() and attention_input_gradient().
void tensor_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s);
void tensor_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                     View lse, const host::AttentionShape& s);

}  // namespace exec::cuda
