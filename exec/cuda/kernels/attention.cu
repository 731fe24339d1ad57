// Causal attention in any type, scores never stored [flash2]: one warp a few rows, one lane a
// column of scores. Tiles of keys and values (or of queries) stand in shared memory in the
// arithmetic's type; tensor cores are not used. What fits them goes to tensor_attention.cu.
//
// The backward pass computes scores twice, once by rows (dq) and once by columns (dk, dv), so that
// every sum has one owner and one order.
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
                              int64_t first, int count, const Heads& s) {
  for (int i = static_cast<int>(threadIdx.x); i < count * s.d; i += 32 * kWarps) {
    const int r = i / s.d, c = i % s.d;
    tile[r * ld + c] =
        first + r < s.seq ? widen(from[(first + r) * row_ld + c]) : Compute<A>(0);
  }
}

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

// Grid: {blocks of rows, heads, samples}.
template <class A, int kColumns>
__global__ void forward(A* out, Compute<A>* lse, const A* qkv, Heads s) {
  using T = Compute<A>;
  PLANNER_SHARED(T, memory);
  const int ld = s.d + 1, warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  T* const q = memory;
  T* const k = q + kRows * ld;
  T* const v = k + kTile * ld;
  T* const p = v + kTile * ld + warp * kTile;  // of this warp
  const Place at(s, blockIdx.z, blockIdx.y);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  load_tile(q, ld, qkv + at.q, s.ld, first, kRows, s);
  T top[kOwn], sum[kOwn], acc[kOwn][kColumns];
  for (int r = 0; r < kOwn; ++r) {
    top[r] = -static_cast<T>(INFINITY);
    sum[r] = T(0);
    for (int c = 0; c < kColumns; ++c) acc[r][c] = T(0);
  }
  const int64_t end = smaller(first + kRows, s.seq);
  for (int64_t j = 0; j < end; j += kTile) {
    __syncthreads();
    load_tile(k, ld, qkv + at.k, s.ld, j, kTile, s);
    load_tile(v, ld, qkv + at.v, s.ld, j, kTile, s);
    __syncthreads();
    for (int r = 0; r < kOwn; ++r) {
      const int own = warp * kOwn + r;
      if (first + own >= s.seq) break;
      const bool seen = j + lane <= first + own && j + lane < s.seq;
      const T score = seen ? dot(q + own * ld, k + lane * ld, s.d) * static_cast<T>(s.scale)
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
      add_rows<T, kColumns>(acc[r], p, v, ld, s.d);
      __syncwarp();
    }
  }
  for (int r = 0; r < kOwn; ++r) {
    const int64_t row = first + warp * kOwn + r;
    if (row >= s.seq) continue;
    store_row<A, kColumns>(out + at.out + row * s.out_ld, acc[r], T(1) / sum[r], s.d);
    if (lane == 0) lse[at.statistic + row] = top[r] + log_of(sum[r]);
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
  for (int c = static_cast<int>(threadIdx.x % 32); c < s.d; c += 32) {
    const int64_t i = at.out + row * s.out_ld + c;
    sum += widen(out[i]) * widen(dout[i]);
  }
  sum = over_warp(sum, Plus{});
  if (threadIdx.x % 32 == 0) delta[at.statistic + row] = sum;
}

// Of one score: its probability, and its gradient from that of the probability.
template <class T>
struct Score { T p, ds; };
template <class T>
PLANNER_DEVICE Score<T> score_of(T qk, T dp, T lse, T delta, T scale, bool seen) {
  const T p = seen ? exp_of(qk * scale - lse) : T(0);
  return {p, seen ? p * (dp - delta) * scale : T(0)};
}

template <class A, int kColumns>
__global__ void query_gradient(A* dqkv, const A* dout, const A* qkv, const Compute<A>* lse,
                               const Compute<A>* delta, Heads s) {
  using T = Compute<A>;
  PLANNER_SHARED(T, memory);
  const int ld = s.d + 1, warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  T* const q = memory;
  T* const g = q + kRows * ld;
  T* const k = g + kRows * ld;
  T* const v = k + kTile * ld;
  T* const ds = v + kTile * ld + warp * kTile;
  const Place at(s, blockIdx.z, blockIdx.y);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  load_tile(q, ld, qkv + at.q, s.ld, first, kRows, s);
  load_tile(g, ld, dout + at.out, s.out_ld, first, kRows, s);
  T acc[kOwn][kColumns] = {};
  const int64_t end = smaller(first + kRows, s.seq);
  for (int64_t j = 0; j < end; j += kTile) {
    __syncthreads();
    load_tile(k, ld, qkv + at.k, s.ld, j, kTile, s);
    load_tile(v, ld, qkv + at.v, s.ld, j, kTile, s);
    __syncthreads();
    for (int r = 0; r < kOwn; ++r) {
      const int own = warp * kOwn + r;
      const int64_t row = first + own;
      if (row >= s.seq) break;
      const bool seen = j + lane <= row && j + lane < s.seq;
      const Score<T> score = score_of(
          dot(q + own * ld, k + lane * ld, s.d), dot(g + own * ld, v + lane * ld, s.d),
          lse[at.statistic + row], delta[at.statistic + row], static_cast<T>(s.scale), seen);
      ds[lane] = score.ds;
      __syncwarp();
      add_rows<T, kColumns>(acc[r], ds, k, ld, s.d);
      __syncwarp();
    }
  }
  for (int r = 0; r < kOwn; ++r) {
    const int64_t row = first + warp * kOwn + r;
    if (row < s.seq) store_row<A, kColumns>(dqkv + at.q + row * s.ld, acc[r], T(1), s.d);
  }
}

// Grid: {blocks of keys, key heads, samples}; all query heads of the key head, ascending.
template <class A, int kColumns>
__global__ void key_gradient(A* dqkv, const A* dout, const A* qkv, const Compute<A>* lse,
                             const Compute<A>* delta, Heads s) {
  using T = Compute<A>;
  PLANNER_SHARED(T, memory);
  const int ld = s.d + 1, warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32), group = s.heads / s.kv_heads;
  T* const k = memory;
  T* const v = k + kRows * ld;
  T* const q = v + kRows * ld;
  T* const g = q + kTile * ld;
  T* const p = g + kTile * ld + warp * 2 * kTile;
  T* const ds = p + kTile;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  const Place of(s, blockIdx.z, blockIdx.y * group);
  load_tile(k, ld, qkv + of.k, s.ld, first, kRows, s);
  load_tile(v, ld, qkv + of.v, s.ld, first, kRows, s);
  T dk[kOwn][kColumns] = {}, dv[kOwn][kColumns] = {};
  for (int head = 0; head < group; ++head) {
    const Place at(s, blockIdx.z, blockIdx.y * group + head);
    for (int64_t i = first / kTile * kTile; i < s.seq; i += kTile) {
      __syncthreads();
      load_tile(q, ld, qkv + at.q, s.ld, i, kTile, s);
      load_tile(g, ld, dout + at.out, s.out_ld, i, kTile, s);
      __syncthreads();
      const int64_t row = smaller(i + lane, s.seq - 1);
      const T log_sum = lse[at.statistic + row], d_sum = delta[at.statistic + row];
      for (int r = 0; r < kOwn; ++r) {
        const int own = warp * kOwn + r;
        if (first + own >= s.seq) break;
        const bool seen = first + own <= i + lane && i + lane < s.seq;
        const Score<T> score =
            score_of(dot(k + own * ld, q + lane * ld, s.d), dot(v + own * ld, g + lane * ld, s.d),
                     log_sum, d_sum, static_cast<T>(s.scale), seen);
        p[lane] = score.p;
        ds[lane] = score.ds;
        __syncwarp();
        add_rows<T, kColumns>(dv[r], p, g, ld, s.d);
        add_rows<T, kColumns>(dk[r], ds, q, ld, s.d);
        __syncwarp();
      }
    }
  }
  for (int r = 0; r < kOwn; ++r) {
    const int64_t row = first + warp * kOwn + r;
    if (row >= s.seq) continue;
    store_row<A, kColumns>(dqkv + of.k + row * s.ld, dk[r], T(1), s.d);
    store_row<A, kColumns>(dqkv + of.v + row * s.ld, dv[r], T(1), s.d);
  }
}

// Pair (i, i + half) of each head of q and k turns by position base^(-2 i / rotated) [rope]; one
// thread a row and pair, angles in f64.
template <class A>
__global__ void turn(A* qkv, int64_t rows, int64_t columns, int64_t normed, int64_t d, int64_t half,
                     int64_t seq, double direction, double base) {
  using T = Compute<A>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * half) return;
  const int64_t r = at / half, i = at % half;
  const double angle = static_cast<double>(r % seq) *
                       pow(base, -static_cast<double>(i) / static_cast<double>(half));
  const T cosine = static_cast<T>(cos(angle)), sine = static_cast<T>(direction * sin(angle));
  for (int64_t h = 0; h < normed; ++h) {
    A* const head = qkv + r * columns + h * d + i;
    const T a = widen(head[0]), b = widen(head[half]);
    narrow(a * cosine - b * sine, head[0]);
    narrow(a * sine + b * cosine, head[half]);
  }
}

template <class Body>
void with_columns(int d, Body&& body) {
  PLANNER_CHECK(d <= 128, "attention heads of up to 128");
  if (d <= 64)
    body.template operator()<2>();
  else
    body.template operator()<4>();
}

}  // namespace

void rotate(const Queue& q, View qkv, const host::HeadShape& s, const host::Rotation& rotation) {
  const int64_t half = rotation.rotated / 2;
  with_type(qkv.type, [&]<class A>() {
    launch(q, "rotate", {blocks_of(s.rows * half, 256)}, {256}, 0, turn<A>, typed<A>(qkv), s.rows,
           s.columns(), s.heads + s.kv_heads, s.head_dim, half, rotation.seq,
           rotation.inverse ? -1.0 : 1.0, rotation.base);
  });
}

void plain_attention(const Queue& q, View out, View lse, View qkv,
                     const host::AttentionShape& shape) {
  const Heads s(shape);
  const Extent grid{blocks_of(s.seq, kRows), static_cast<unsigned>(s.heads),
                    static_cast<unsigned>(shape.samples)};
  with_type(one_type(out, qkv), [&]<class A>() {
    using T = Compute<A>;
    const std::size_t elements =
        static_cast<std::size_t>((kRows + 2 * kTile) * (s.d + 1) + kWarps * kTile);
    with_columns(s.d, [&]<int kColumns>() {
      launch(q, "attention", grid, {32 * kWarps}, elements * sizeof(T), forward<A, kColumns>,
             typed<A>(out), typed<T>(lse), typed<A>(qkv), s);
    });
  });
}

void plain_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                    View lse, const host::AttentionShape& shape) {
  const Heads s(shape);
  const auto samples = static_cast<unsigned>(shape.samples);
  const auto heads = static_cast<unsigned>(s.heads), kv_heads = static_cast<unsigned>(s.kv_heads);
  with_type(one_type(dqkv, dout, qkv, out), [&]<class A>() {
    using T = Compute<A>;
    T* const delta = q.take<T>(shape.samples * s.heads * s.seq);
    launch(q, "attention_deltas", {blocks_of(s.seq, kWarps), heads, samples}, {32 * kWarps}, 0,
           deltas<A>, delta, typed<A>(dout), typed<A>(out), s);
    const int tiles = (2 * kRows + 2 * kTile) * (s.d + 1);
    with_columns(s.d, [&]<int kColumns>() {
      launch(q, "attention_query_gradient", {blocks_of(s.seq, kRows), heads, samples},
             {32 * kWarps}, static_cast<std::size_t>(tiles + kWarps * kTile) * sizeof(T),
             query_gradient<A, kColumns>, typed<A>(dqkv), typed<A>(dout), typed<A>(qkv),
             typed<T>(lse), delta, s);
      launch(q, "attention_key_gradient", {blocks_of(s.seq, kRows), kv_heads, samples},
             {32 * kWarps}, static_cast<std::size_t>(tiles + 2 * kWarps * kTile) * sizeof(T),
             key_gradient<A, kColumns>, typed<A>(dqkv), typed<A>(dout), typed<A>(qkv),
             typed<T>(lse), delta, s);
    });
  });
}

void attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& shape) {
  check_statistics(qkv.type, lse);
  const bool fits = fits_tensor_cores(shape, {out, qkv});
  (fits ? tensor_attention : plain_attention)(q, out, lse, qkv, shape);
}

void attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out, View lse,
                              const host::AttentionShape& shape) {
  check_statistics(qkv.type, lse);
  const bool fits = fits_tensor_cores(shape, {dqkv, dout, qkv, out});
  (fits ? tensor_attention_input_gradient : plain_attention_input_gradient)(q, dqkv, dout, qkv, out,
                                                                            lse, shape);
}

}  // namespace exec::cuda
