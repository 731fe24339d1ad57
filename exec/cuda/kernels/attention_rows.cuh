#pragma once
// Kernels of attention in any type, scores never stored [flash2]: a warp has a few rows, a lane a
// column of scores. Tiles of keys and values (or of queries) stand in shared memory in the
// arithmetic's type; tensor cores are not used. The plain form takes fewer registers than others.
//
// The backward pass computes scores twice, once by rows (dq) and once by columns (dk, dv), so that
// every sum has one owner and one order.

#include <algorithm>

#include "exec/cuda/kernels/attention.cuh"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kOwn = 4;                // rows of a warp
constexpr int kRows = kWarps * kOwn;   // of a block
constexpr int kTile = 32;              // columns at a time: a lane each

// Rows [first, first + count) of a matrix into shared memory, `ld` apart, zeros beyond seq.
template <class A>
PLANNER_DEVICE void load_tile(Compute<A>* tile, int ld, const A* from, int64_t row_ld,
                              int64_t first, int count, int d, int64_t seq) {
  for (int i = static_cast<int>(threadIdx.x); i < count * d; i += 32 * kWarps) {
    const int r = i / d, c = i % d;
    tile[r * ld + c] = first + r < seq ? widen(from[(first + r) * row_ld + c]) : Compute<A>(0);
  }
}

// A score as the softmax takes it, and its derivative by the product of query and key.
template <class T, Form kForm>
struct Scored {
  T value, slope;
  PLANNER_DEVICE Scored(const HeadsOf<kForm>& s, const Slopes& slopes, int64_t head, T qk,
                        int64_t query, int64_t key)
      : value(qk * static_cast<T>(s.scale)), slope(static_cast<T>(s.scale)) {
    if constexpr (kForm == Form::plain) return;
    if (s.soft_cap > 0) {
      const T cap = static_cast<T>(s.soft_cap), t = tanh_of(value / cap);
      value = cap * t;
      slope *= T(1) - t * t;
    }
    if (slopes.count > 0)
      value += static_cast<T>(slopes.of[head]) *
               static_cast<T>(static_cast<int>(s.distance(query, key)));
  }
};

template <Form kForm>
PLANNER_DEVICE bool sees(const HeadsOf<kForm>& s, int64_t query, int64_t key) {
  if constexpr (kForm != Form::plain) return s.sees(query, key);
  return key <= query && query < s.seq;
}
// Tiles of keys that queries [first, first + kRows) see begin and end here.
template <Form kForm>
PLANNER_DEVICE int64_t keys_begin(const HeadsOf<kForm>& s, int64_t first) {
  return kForm == Form::plain ? 0 : s.first_key(first) / kTile * kTile;
}
template <Form kForm>
PLANNER_DEVICE int64_t keys_end(const HeadsOf<kForm>& s, int64_t first) {
  const int64_t end = smaller(first + kRows, s.seq);
  return kForm == Form::plain ? end : s.key_end(end - 1);
}

// Elements between rows in shared memory: an odd number, so that lanes meet different banks.
PLANNER_EVERYWHERE int tile_ld(const Heads& s) { return (s.d > s.dv ? s.d : s.dv) | 1; }

template <class T>
PLANNER_DEVICE T dot(const T* a, const T* b, int d) {
  T sum = T(0);
  for (int i = 0; i < d; ++i) sum += a[i] * b[i];
  return sum;
}

// acc[c] += sum over the tile of weight[k] rows[k][lane + 32 c].
template <class T, int kColumns>
PLANNER_DEVICE void add_rows(T* acc, const T* weight, const T* rows, int ld, int d) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int k = 0; k < kTile; ++k)
    for (int c = 0; c < kColumns; ++c)
      if (lane + 32 * c < d) acc[c] += weight[k] * rows[k * ld + lane + 32 * c];
}

template <class A, int kColumns>
PLANNER_DEVICE void store_row(A* to, const Compute<A>* acc, Compute<A> factor, int d) {
  for (int c = 0; c < kColumns; ++c) {
    const int at = static_cast<int>(threadIdx.x % 32) + 32 * c;
    if (at < d) narrow(acc[c] * factor, to[at]);
  }
}

// Of one row of a head: its results, merged into those of the blocks before.
template <class T, int kColumns>
PLANNER_DEVICE void merge_row(const ApartHeads& s, const Place& at, int64_t sample, int64_t head,
                              int64_t row, const T* acc, T top, T sum, T* lse) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const T earlier = s.is_first() ? T(0) : lse[at.statistic + row];
  const Merged<T> merged(s.is_first(), earlier, top + log_of(sum), sum);
  __syncwarp();                        // all lanes have read it
  if (lane == 0) lse[at.statistic + row] = merged.lse;
  for (int c = 0; c < kColumns; ++c) {
    const int i = lane + 32 * c;
    if (i < s.dv)
      s.put(sample * s.seq + row, head * s.dv + i, acc[c] * merged.add, merged.keep);
  }
}

// The part of a query's gradient that these keys make, added to that of the blocks before.
template <class T, int kColumns>
PLANNER_DEVICE void add_row(const ApartHeads& s, int64_t sample, int64_t head, int64_t row,
                            const T* acc) {
  for (int c = 0; c < kColumns; ++c) {
    const int i = static_cast<int>(threadIdx.x % 32) + 32 * c;
    if (i < s.d) s.put(sample * s.seq + row, head * s.d + i, acc[c], T(1));
  }
}

// Grid: {blocks of rows, heads, samples}.
template <class A, int kColumns, Form kForm>
__global__ void forward(A* out, Compute<A>* lse, const A* qkv, const A* sinks,
                        PLANNER_ARGUMENT HeadsOf<kForm> s, PLANNER_ARGUMENT Slopes slopes) {
  using T = Compute<A>;
  const A* const keys = keys_of(s, qkv);
  PLANNER_SHARED(T, memory);
  const int ld = tile_ld(s), warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  T* const q = memory;
  T* const k = q + kRows * ld;
  T* const v = k + kTile * ld;
  T* const p = v + kTile * ld + warp * kTile;  // of this warp
  const Place at(s, blockIdx.z, blockIdx.y);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  load_tile(q, ld, qkv + at.q, s.ld, first, kRows, s.d, s.seq);
  const bool sunk = kForm != Form::plain && sinks != nullptr;
  T top[kOwn], sum[kOwn], acc[kOwn][kColumns];
  for (int r = 0; r < kOwn; ++r) {
    // A sink is a score that has no value.
    top[r] = sunk ? widen(sinks[blockIdx.y]) : -static_cast<T>(INFINITY);
    sum[r] = sunk ? T(1) : T(0);
    for (int c = 0; c < kColumns; ++c) acc[r][c] = T(0);
  }
  const int64_t end = keys_end<kForm>(s, first);
  for (int64_t j = keys_begin<kForm>(s, first); j < end; j += kTile) {
    __syncthreads();
    load_tile(k, ld, keys + at.k, s.key_ld(), j, kTile, s.d, s.key_rows());
    load_tile(v, ld, keys + at.v, s.key_ld(), j, kTile, s.dv, s.key_rows());
    __syncthreads();
    for (int r = 0; r < kOwn; ++r) {
      const int own = warp * kOwn + r;
      if (first + own >= s.seq) break;
      const bool seen = sees<kForm>(s, first + own, j + lane);
      const T score = seen ? Scored<T, kForm>(s, slopes, blockIdx.y,
                                       dot(q + own * ld, k + lane * ld, s.d), first + own,
                                       j + lane).value
                           : -static_cast<T>(INFINITY);
      const T above = max_of(top[r], over_warp(score, Greater{}));
      const T weight = seen ? exp_of(score - above) : T(0);
      // A row of the block may see nothing of this tile: then `above` stays what it was.
      const T shrink = top[r] == above ? T(1) : exp_of(top[r] - above);
      sum[r] = sum[r] * shrink + over_warp(weight, Plus{});
      top[r] = above;
      for (int c = 0; c < kColumns; ++c) acc[r][c] *= shrink;
      p[lane] = weight;
      __syncwarp();
      add_rows<T, kColumns>(acc[r], p, v, ld, s.dv);
      __syncwarp();
    }
  }
  for (int r = 0; r < kOwn; ++r) {
    const int64_t row = first + warp * kOwn + r;
    if (row >= s.seq) continue;
    if constexpr (kForm == Form::apart) {
      merge_row<T, kColumns>(s, at, blockIdx.z, blockIdx.y, row, acc[r], top[r], sum[r], lse);
    } else {
      store_row<A, kColumns>(out + at.out + row * s.out_ld, acc[r], T(1) / sum[r], s.dv);
      if (lane == 0) lse[at.statistic + row] = top[r] + log_of(sum[r]);
    }
  }
}

// delta[row] = sum of dout out over the head [flash2] section 3.1.2; one warp a row.
template <class A>
__global__ void deltas(Compute<A>* delta, const A* dout, const A* out, Heads s) {
  using T = Compute<A>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= s.seq) return;
  const Place at(s, blockIdx.z, blockIdx.y);
  T sum = T(0);
  for (int c = static_cast<int>(threadIdx.x % 32); c < s.dv; c += 32) {
    const int64_t i = at.out + row * s.out_ld + c;
    sum += widen(out[i]) * widen(dout[i]);
  }
  sum = over_warp(sum, Plus{});
  if (threadIdx.x % 32 == 0) delta[at.statistic + row] = sum;
}

// Of one score: its probability, and the gradient of query times key from that of the probability.
template <class T>
struct Gradient {
  T p, ds;
  template <Form kForm>
  PLANNER_DEVICE Gradient(const Scored<T, kForm>& score, T dp, T lse, T delta, bool seen)
      : p(seen ? exp_of(score.value - lse) : T(0)),
        ds(seen ? p * (dp - delta) * score.slope : T(0)) {}
};

template <class A, int kColumns, Form kForm>
__global__ void query_gradient(A* dqkv, const A* dout, const A* qkv, const Compute<A>* lse,
                               const Compute<A>* delta, PLANNER_ARGUMENT HeadsOf<kForm> s,
                               PLANNER_ARGUMENT Slopes slopes) {
  using T = Compute<A>;
  const A* const keys = keys_of(s, qkv);
  PLANNER_SHARED(T, memory);
  const int ld = tile_ld(s), warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  T* const q = memory;
  T* const g = q + kRows * ld;
  T* const k = g + kRows * ld;
  T* const v = k + kTile * ld;
  T* const ds = v + kTile * ld + warp * kTile;
  const Place at(s, blockIdx.z, blockIdx.y);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  load_tile(q, ld, qkv + at.q, s.ld, first, kRows, s.d, s.seq);
  load_tile(g, ld, dout + at.out, s.out_ld, first, kRows, s.dv, s.seq);
  T acc[kOwn][kColumns] = {};
  const int64_t end = keys_end<kForm>(s, first);
  for (int64_t j = keys_begin<kForm>(s, first); j < end; j += kTile) {
    __syncthreads();
    load_tile(k, ld, keys + at.k, s.key_ld(), j, kTile, s.d, s.key_rows());
    load_tile(v, ld, keys + at.v, s.key_ld(), j, kTile, s.dv, s.key_rows());
    __syncthreads();
    for (int r = 0; r < kOwn; ++r) {
      const int own = warp * kOwn + r;
      const int64_t row = first + own;
      if (row >= s.seq) break;
      const Scored<T, kForm> score(s, slopes, blockIdx.y,
                                   dot(q + own * ld, k + lane * ld, s.d), row, j + lane);
      const T dp = dot(g + own * ld, v + lane * ld, s.dv);
      ds[lane] = Gradient<T>(score, dp, lse[at.statistic + row], delta[at.statistic + row],
                             sees<kForm>(s, row, j + lane)).ds;
      __syncwarp();
      add_rows<T, kColumns>(acc[r], ds, k, ld, s.d);
      __syncwarp();
    }
  }
  for (int r = 0; r < kOwn; ++r) {
    const int64_t row = first + warp * kOwn + r;
    if (row >= s.seq) continue;
    if constexpr (kForm == Form::apart)
      add_row<T, kColumns>(s, blockIdx.z, blockIdx.y, row, acc[r]);
    else
      store_row<A, kColumns>(dqkv + at.q + row * s.ld, acc[r], T(1), s.d);
  }
}

// Grid: {blocks of keys, key heads, samples}; all query heads of the key head, ascending.
template <class A, int kColumns, Form kForm>
__global__ void key_gradient(A* dqkv, const A* dout, const A* qkv, const Compute<A>* lse,
                             const Compute<A>* delta, PLANNER_ARGUMENT HeadsOf<kForm> s,
                             PLANNER_ARGUMENT Slopes slopes) {
  using T = Compute<A>;
  const A* const keys = keys_of(s, qkv);
  PLANNER_SHARED(T, memory);
  const int ld = tile_ld(s), warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32), group = s.heads / s.kv_heads;
  T* const k = memory;
  T* const v = k + kRows * ld;
  T* const q = v + kRows * ld;
  T* const g = q + kTile * ld;
  T* const p = g + kTile * ld + warp * 2 * kTile;
  T* const ds = p + kTile;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  const Place of(s, blockIdx.z, blockIdx.y * group);
  load_tile(k, ld, keys + of.k, s.key_ld(), first, kRows, s.d, s.key_rows());
  load_tile(v, ld, keys + of.v, s.key_ld(), first, kRows, s.dv, s.key_rows());
  T dk[kOwn][kColumns] = {}, dv[kOwn][kColumns] = {};
  for (int head = 0; head < group; ++head) {
    const Place at(s, blockIdx.z, blockIdx.y * group + head);
    constexpr bool kPlain = kForm == Form::plain;
    const int64_t end = kPlain ? s.seq : s.query_end(smaller(first + kRows, s.key_rows()) - 1);
    const int64_t start = kPlain ? first : s.query_begin(first);
    for (int64_t i = start / kTile * kTile; i < end; i += kTile) {
      __syncthreads();
      load_tile(q, ld, qkv + at.q, s.ld, i, kTile, s.d, s.seq);
      load_tile(g, ld, dout + at.out, s.out_ld, i, kTile, s.dv, s.seq);
      __syncthreads();
      const int64_t row = smaller(i + lane, s.seq - 1);
      const T log_sum = lse[at.statistic + row], d_sum = delta[at.statistic + row];
      for (int r = 0; r < kOwn; ++r) {
        const int own = warp * kOwn + r;
        if (first + own >= s.key_rows()) break;
        const Scored<T, kForm> score(s, slopes, blockIdx.y * group + head,
                              dot(k + own * ld, q + lane * ld, s.d), i + lane, first + own);
        const Gradient<T> gradient(score, dot(v + own * ld, g + lane * ld, s.dv), log_sum, d_sum,
                                   sees<kForm>(s, i + lane, first + own));
        p[lane] = gradient.p;
        ds[lane] = gradient.ds;
        __syncwarp();
        add_rows<T, kColumns>(dv[r], p, g, ld, s.dv);
        add_rows<T, kColumns>(dk[r], ds, q, ld, s.d);
        __syncwarp();
      }
    }
  }
  for (int r = 0; r < kOwn; ++r) {
    const int64_t row = first + warp * kOwn + r;
    if (row >= s.key_rows()) continue;
    const auto [k_at, v_at] = gradients_at(s, of, blockIdx.z, blockIdx.y);
    A* const to = dkeys_of(s, dqkv) + row * dkeys_ld(s);
    store_row<A, kColumns>(to + k_at, dk[r], T(1), s.d);
    store_row<A, kColumns>(to + v_at, dv[r], T(1), s.dv);
  }
}

template <Form kForm, class Body>
void with_columns(int d, Body&& body) {
  PLANNER_CHECK(d <= 256, "attention heads of up to 256");
  if (d <= 64) return body.template operator()<2>();
  if constexpr (kForm != Form::plain)
    if (d > kPlainWidth) return body.template operator()<8>();
  body.template operator()<4>();
}

template <Form kForm>
void rows_attention(const Queue& q, View out, View lse, View qkv, const HeadsOf<kForm>& s,
                    const host::AttentionShape& shape, View sinks) {
  const Slopes slopes(shape);
  const Extent grid{blocks_of(s.seq, kRows), static_cast<unsigned>(s.heads),
                    static_cast<unsigned>(shape.samples)};
  with_type(one_type(qkv, out, sinks), [&]<class A>() {
    using T = Compute<A>;
    const std::size_t elements =
        static_cast<std::size_t>((kRows + 2 * kTile) * tile_ld(s) + kWarps * kTile);
    with_columns<kForm>(std::max(s.d, s.dv), [&]<int kColumns>() {
      launch(q, "attention", grid, {32 * kWarps}, elements * sizeof(T),
             forward<A, kColumns, kForm>, typed<A>(out), typed<T>(lse), typed<A>(qkv),
             typed<A>(sinks), s, slopes);
    });
  });
}

template <Form kForm>
void rows_attention_gradient(const Queue& q, View dqkv, View dout, View qkv, View out, View lse,
                             const HeadsOf<kForm>& s, const host::AttentionShape& shape) {
  const Slopes slopes(shape);
  const auto samples = static_cast<unsigned>(shape.samples);
  const auto heads = static_cast<unsigned>(s.heads), kv_heads = static_cast<unsigned>(s.kv_heads);
  with_type(one_type(qkv, dqkv, dout, out), [&]<class A>() {
    using T = Compute<A>;
    T* const delta = q.take<T>(shape.samples * s.heads * s.seq);
    launch(q, "attention_deltas", {blocks_of(s.seq, kWarps), heads, samples}, {32 * kWarps}, 0,
           deltas<A>, delta, typed<A>(dout), typed<A>(out), s);
    const int tiles = (2 * kRows + 2 * kTile) * tile_ld(s);
    with_columns<kForm>(std::max(s.d, s.dv), [&]<int kColumns>() {
      launch(q, "attention_query_gradient", {blocks_of(s.seq, kRows), heads, samples},
             {32 * kWarps}, static_cast<std::size_t>(tiles + kWarps * kTile) * sizeof(T),
             query_gradient<A, kColumns, kForm>, typed<A>(dqkv), typed<A>(dout), typed<A>(qkv),
             typed<T>(lse), delta, s, slopes);
      launch(q, "attention_key_gradient", {blocks_of(s.key_rows(), kRows), kv_heads, samples},
             {32 * kWarps}, static_cast<std::size_t>(tiles + 2 * kWarps * kTile) * sizeof(T),
             key_gradient<A, kColumns, kForm>, typed<A>(dqkv), typed<A>(dout), typed<A>(qkv),
             typed<T>(lse), delta, s, slopes);
    });
  });
}

}  // namespace
}  // namespace exec::cuda
