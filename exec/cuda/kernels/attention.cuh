#pragma once
// Where the heads of an attention lie, which keys a query sees, and what its scores become.

#include <cmath>
#include <initializer_list>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {

// Extents of heads, and the rule of what is seen. REQUIRES that queries and keys are the same rows.
struct Heads {
  explicit Heads(const host::AttentionShape& s)
      : seq(s.seq), ld(s.qkv_columns()), out_ld(s.heads * s.values()),
        heads(static_cast<int>(s.heads)), kv_heads(static_cast<int>(s.kv_heads)),
        d(static_cast<int>(s.head_dim)), dv(static_cast<int>(s.values())),
        scale(s.scale != 0 ? s.scale : 1.0 / std::sqrt(static_cast<double>(s.head_dim))),
        causal(s.causal), window(s.window), chunk(s.chunk), soft_cap(s.soft_cap) {}
  int64_t seq, ld, out_ld;
  int heads, kv_heads, d, dv;          // dv: of a head's values
  double scale;
  bool causal;
  int64_t window, chunk;
  double soft_cap;

  // Keys [first_key, key_end) of a query; queries before query_end of a key, if causal from it on.
  PLANNER_EVERYWHERE int64_t first_key(int64_t query) const {
    if (chunk > 0) return query / chunk * chunk;
    return window > 0 && query + 1 > window ? query + 1 - window : 0;
  }
  PLANNER_EVERYWHERE int64_t key_end(int64_t query) const {
    return causal && query + 1 < seq ? query + 1 : seq;
  }
  PLANNER_EVERYWHERE int64_t query_end(int64_t key) const {
    const int64_t end = chunk > 0    ? (key / chunk + 1) * chunk
                        : window > 0 ? key + window
                                     : seq;
    return end < seq ? end : seq;
  }
  PLANNER_EVERYWHERE bool sees(int64_t query, int64_t key) const {
    return query < seq && key < key_end(query) && key >= first_key(query);
  }
};

// Slopes of linear biases, by head of this rank; none: no biases. An argument of a kernel.
constexpr int kMostSloped = 128;
struct Slopes {
  int count = 0;
  double of[kMostSloped] = {};
  explicit Slopes(const host::AttentionShape& s) {
    if (s.biases.all_heads == 0) return;
    PLANNER_CHECK(s.heads <= kMostSloped, "linear biases of up to 128 heads");
    count = static_cast<int>(s.heads);
    for (int h = 0; h < count; ++h)
      of[h] = host::alibi_slope(s.biases.first_head + h, s.biases.all_heads);
  }
};

// Offsets of one head of one sample: of its first row of q, k, v, out, and of its statistics.
struct Place {
  PLANNER_DEVICE Place(const Heads& s, int64_t sample, int64_t head)
      : q(sample * s.seq * s.ld + head * s.d),
        k(sample * s.seq * s.ld + (s.heads + head / (s.heads / s.kv_heads)) * s.d),
        v(sample * s.seq * s.ld + static_cast<int64_t>(s.heads + s.kv_heads) * s.d +
          head / (s.heads / s.kv_heads) * s.dv),
        out(sample * s.seq * s.out_ld + head * s.dv),
        statistic((sample * s.heads + head) * s.seq) {}
  int64_t q, k, v, out, statistic;
};

// Whether every query sees the keys up to its own, and scores are those of the plain softmax.
inline bool plainly_causal(const host::AttentionShape& s) {
  return s.causal && s.window == 0 && s.chunk == 0 && s.soft_cap == 0 &&
         s.biases.all_heads == 0 && s.values() == s.head_dim;
}

// Whether tensor_attention.cu computes it: 16-bit views, each aligned to 16 bytes; heads of a
// multiple of 8, at most 128, whose values are as wide.
bool fits_tensor_cores(const host::AttentionShape& s, std::initializer_list<View> views);
// REQUIRE that. As attention() and attention_input_gradient().
void tensor_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
                      View sinks);
void tensor_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                     View lse, const host::AttentionShape& s);

// As plain_attention() and its gradient, of every mask (masked_attention.cu). Heads that are wider
// than kPlainWidth have no other kernel.
constexpr int kPlainWidth = 128;
void masked_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
                      View sinks);
void masked_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                     View lse, const host::AttentionShape& s);

}  // namespace exec::cuda
