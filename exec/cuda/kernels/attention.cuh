#pragma once
// Where the heads of an attention lie, which keys a query sees, and what its scores become.

#include <cmath>
#include <initializer_list>
#include <type_traits>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {

// What kernels of attention are made for: queries that see all keys up to their own, with the plain
// softmax; every mask, and what else scores become; the same of keys that lie apart.
enum class Form : std::uint8_t { plain, masked, apart };

// Extents of heads, and the rule of what is seen, where queries and keys are the same rows.
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

  // Where keys lie: in the rows of qkv, behind the queries.
  PLANNER_EVERYWHERE int64_t key_rows() const { return seq; }
  PLANNER_EVERYWHERE int64_t key_ld() const { return ld; }
  PLANNER_EVERYWHERE int64_t key_column() const { return static_cast<int64_t>(heads) * d; }
  // Keys [first_key, key_end) of a query, queries [query_begin, query_end) of a key.
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
  PLANNER_EVERYWHERE int64_t query_begin(int64_t key) const { return causal ? key : 0; }
  PLANNER_EVERYWHERE bool sees(int64_t query, int64_t key) const {
    return query < seq && key < key_end(query) && key >= first_key(query);
  }
  // From a query to a key in the sequence.
  PLANNER_EVERYWHERE int64_t distance(int64_t query, int64_t key) const { return key - query; }
};

// The same of keys that lie apart, and where results go. Queries see more keys the later they are:
// of a block (host::AttentionShape::block) the first early_keys or late_keys, else those up to
// their own position.
struct ApartHeads : Heads {
  ApartHeads(const host::AttentionShape& s, RowsAt keys, RowsAt to, RowsAt before);
  const void* keys;
  int64_t count, row;                  // of keys: rows of a sample, elements between two
  Positions queries;                   // as keys are counted
  bool block;
  int64_t early_keys, late_keys;
  Positions query_places, key_places;  // of linear biases
  // Results with these keys', and of the blocks before; absent for the first.
  Real to, before;
  int64_t to_ld, before_ld;
  void* dkeys = nullptr;
  int64_t dkeys_ld = 0;

  PLANNER_EVERYWHERE int64_t key_rows() const { return count; }
  PLANNER_EVERYWHERE int64_t key_ld() const { return row; }
  PLANNER_EVERYWHERE int64_t key_column() const { return 0; }
  PLANNER_EVERYWHERE int64_t first_key(int64_t query) const {
    return Heads::first_key(queries.of(query));
  }
  PLANNER_EVERYWHERE int64_t key_end(int64_t query) const {
    if (block) return query < queries.early ? early_keys : late_keys;
    const int64_t own = queries.of(query) + 1;
    return causal && own < count ? own : count;
  }
  PLANNER_EVERYWHERE int64_t query_begin(int64_t key) const {
    if (block) return key < early_keys ? 0 : key < late_keys ? queries.early : seq;
    return causal ? queries.before(key, seq) : 0;
  }
  PLANNER_EVERYWHERE int64_t query_end(int64_t key) const {
    if (chunk > 0) return queries.before((key / chunk + 1) * chunk, seq);
    return window > 0 ? queries.before(key + window, seq) : seq;
  }
  PLANNER_EVERYWHERE bool sees(int64_t query, int64_t key) const {
    return query < seq && key < key_end(query) && key >= first_key(query);
  }
  PLANNER_EVERYWHERE int64_t distance(int64_t query, int64_t key) const {
    return key_places.of(key) - query_places.of(query);
  }
  PLANNER_DEVICE bool is_first() const { return before.data == nullptr; }
  // The result of a row among those of all samples: y, and `keep` times that of the blocks before.
  template <class T>
  PLANNER_DEVICE void put(int64_t at, int64_t column, T y, T keep) const {
    if (!is_first()) y += load_real<T>(before, at * before_ld + column) * keep;
    store_real(to, at * to_ld + column, y);
  }
};
template <Form kForm>
using HeadsOf = std::conditional_t<kForm == Form::apart, ApartHeads, Heads>;

// From where a kernel reads keys and values, by the columns and rows that its heads say.
template <class A>
PLANNER_DEVICE const A* keys_of(const Heads&, const A* qkv) {
  return qkv;
}
template <class A>
PLANNER_DEVICE const A* keys_of(const ApartHeads& s, const A*) {
  return static_cast<const A*>(s.keys);
}
// Where it leaves the gradients of keys and values; elements between their rows.
template <class A>
PLANNER_DEVICE A* dkeys_of(const Heads&, A* dqkv) {
  return dqkv;
}
template <class A>
PLANNER_DEVICE A* dkeys_of(const ApartHeads& s, A*) {
  return static_cast<A*>(s.dkeys);
}
PLANNER_DEVICE int64_t dkeys_ld(const Heads& s) { return s.ld; }
PLANNER_DEVICE int64_t dkeys_ld(const ApartHeads& s) { return s.dkeys_ld; }

// How one row of a block is merged into those of the blocks before: by m = log(e^lse + e^lse') of
// both, and what each counts. `sum`: of this block's weights, 0 where the row sees nothing of it.
template <class T>
struct Merged {
  T lse, keep = T(0), add;
  PLANNER_DEVICE Merged(bool first, T earlier, T own, T sum) : lse(own), add(T(1) / sum) {
    if (first) return;
    if (!(sum > T(0))) own = -static_cast<T>(INFINITY);
    const T most = max_of(earlier, own);
    lse = most + log_of(exp_of(earlier - most) + exp_of(own - most));
    keep = exp_of(earlier - lse);
    add = sum > T(0) ? exp_of(own - lse) / sum : T(0);
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
  template <class S>
  PLANNER_DEVICE Place(const S& s, int64_t sample, int64_t head)
      : q(sample * s.seq * s.ld + head * s.d),
        k(sample * s.key_rows() * s.key_ld() + s.key_column() +
          head / (s.heads / s.kv_heads) * s.d),
        v(sample * s.key_rows() * s.key_ld() + s.key_column() +
          static_cast<int64_t>(s.kv_heads) * s.d + head / (s.heads / s.kv_heads) * s.dv),
        out(sample * s.seq * s.out_ld + head * s.dv),
        statistic((sample * s.heads + head) * s.seq) {}
  int64_t q, k, v, out, statistic;
};

// Of a key head's first row there: its gradients of k, and of v.
struct KeyGradients { int64_t k, v; };
PLANNER_DEVICE KeyGradients gradients_at(const Heads&, const Place& at, int64_t, int64_t) {
  return {at.k, at.v};
}
PLANNER_DEVICE KeyGradients gradients_at(const ApartHeads& s, const Place&, int64_t sample,
                                         int64_t head) {
  const int64_t first = sample * s.count * s.dkeys_ld;
  return {first + head * s.d, first + static_cast<int64_t>(s.kv_heads) * s.d + head * s.dv};
}

// Whether every query sees the keys up to its own, and scores are those of the plain softmax.
inline bool plainly_causal(const host::AttentionShape& s) {
  return s.causal && s.window == 0 && s.chunk == 0 && s.soft_cap == 0 &&
         s.biases.all_heads == 0 && s.values() == s.head_dim;
}

// Whether tensor_attention.cu computes it: 16-bit views, each aligned to 16 bytes; heads of a
// multiple of 8, at most 128, whose values are as wide.
bool fits_tensor_cores(const host::AttentionShape& s, std::initializer_list<View> views);
// REQUIRE that. As attention() and attention_input_gradient(), and those of blocks.
void tensor_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
                      View sinks);
void tensor_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                     View lse, const host::AttentionShape& s);
void tensor_block_attention(const Queue& q, View lse, View qkv, const ApartHeads& heads,
                            const host::AttentionShape& s, View sinks);
void tensor_block_attention_input_gradient(const Queue& q, View dout, View qkv, View out, View lse,
                                           const ApartHeads& heads,
                                           const host::AttentionShape& s);

// As plain_attention() and its gradient, of every mask (masked_attention.cu). Heads that are wider
// than kPlainWidth have no other kernel.
constexpr int kPlainWidth = 128;
void masked_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
                      View sinks);
void masked_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                     View lse, const host::AttentionShape& s);

}  // namespace exec::cuda
