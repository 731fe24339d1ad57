// The backward pass of attention on tensor cores (tensor_attention.cu). It computes scores twice,
// once by rows (dq) and once by columns (dk, dv): 7 products where a pass with atomic sums has 5,
// but every sum has one owner and one order, so the same inputs give the same bits. Gradients of
// probabilities are rounded to the type before they are multiplied.
#include "exec/cuda/kernels/tensor_passes.cuh"

namespace exec::cuda {
namespace {

// As Forward of tensor_attention.cu.
template <int kHead, Form kForm>
struct Backward {
  static constexpr int kTiles = kHead <= kHeadFits && kForm == Form::plain ? 2 : 1;
  static constexpr int kOwn = 16 * kTiles * kTensorWarps;
  static constexpr int kMet = 32;
  static constexpr int kRows = 2 * kOwn + 4 * kMet;  // both own matrices, two stages
  // Of two stages of queries: lse and delta.
  static constexpr std::size_t kStatistics = 4 * kMet * sizeof(float);
};

// The part of the queries' gradients that these keys make, added to that of the blocks before.
template <int kTiles, int kHead>
PLANNER_DEVICE void add_rows(const ApartHeads& s, int64_t sample, int64_t head, int row,
                             const float (&acc)[kTiles][kHead / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  PLANNER_UNROLL
  for (int m = 0; m < kTiles; ++m)
    PLANNER_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int64_t r = row + 16 * m + 8 * h + lane / 4;
      if (r >= s.seq) continue;
      PLANNER_UNROLL
      for (int n = 0; n < kHead / 8; ++n)
        PLANNER_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int column = 8 * n + lane % 4 * 2 + i;
          if (column < s.d)
            s.put(sample * s.seq + r, head * s.d + column,
                  acc[m][n][2 * h + i] * static_cast<float>(s.scale), 1.0F);
        }
    }
}

// delta[row] = sum of dout out over the head [flash2] section 3.1.2: 16 lanes a row, 16 bytes each.
template <class A>
__global__ void row_products(float* delta, const A* dout, const A* out, Heads s) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kTensorThreads / 16) + threadIdx.x / 16;
  const int c = static_cast<int>(threadIdx.x % 16) * 8;
  const Place at(s, blockIdx.z, blockIdx.y);
  float sum = 0;
  if (row < s.seq && c < s.d) {
    float a[8], b[8];
    load_pack(out + at.out + row * s.out_ld, c, s.d, true, a);
    load_pack(dout + at.out + row * s.out_ld, c, s.d, true, b);
    for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
  }
  for (int mask = 8; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAll, sum, mask);
  if (row < s.seq && c == 0) delta[at.statistic + row] = sum;
}

// Grid: {blocks of rows, heads, samples}; the longest rows first.
template <class A, int kHead, Form kForm>
__global__ void __launch_bounds__(kTensorThreads, 2)
    query_gradient(A* dqkv, const A* dout, const A* qkv, const float* lse, const float* delta,
                   PLANNER_ARGUMENT HeadsOf<kForm> s, PLANNER_ARGUMENT Slopes slopes) {
  using R = Rows<A, kHead>;
  using Of = Backward<kHead, kForm>;
  constexpr bool kMasked = kForm != Form::plain;
  constexpr int kTiles = Of::kTiles, kMet = Of::kMet;
  PLANNER_SHARED(A, memory);
  const QueryBlock<kForm, Of> b(s, slopes);
  const int own = b.own, seq = b.seq, tiles = b.tiles;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  A* const rows = memory + 4 * kMet * R::kLd;  // q, then dout
  const auto stage = [&](int j) { return memory + j % 2 * (2 * kMet * R::kLd); };
  const auto fetch = [&](int j) { b.template fetch<R>(s, qkv, stage(j), j); };
  R::template fetch<Of::kOwn>(rows, qkv + b.at.q, s.ld, b.first, seq, s.d);
  R::template fetch<Of::kOwn>(rows + Of::kOwn * R::kLd, dout + b.at.out, s.out_ld, b.first, seq,
                              s.d);
  fetch(b.start);
  await_copies();
  __syncthreads();
  A* const mine = rows + warp * 16 * kTiles * R::kLd;
  const typename R::template Held<kTiles> q(mine), g(mine + Of::kOwn * R::kLd);
  float above[kTiles][2], less[kTiles][2], acc[kTiles][kHead / 8][4] = {};
  for (int m = 0; m < kTiles; ++m)
    for (int h = 0; h < 2; ++h) {
      const int row = own + 16 * m + 8 * h + lane / 4;
      above[m][h] = row < seq ? lse[b.at.statistic + row] * kLog2E : 0;
      less[m][h] = row < seq ? delta[b.at.statistic + row] : 0;
    }

  const float scale = static_cast<float>(s.scale) * kLog2E;
  for (int j = b.start; j < tiles; ++j) {
    await_copies();
    __syncthreads();
    if (j + 1 < tiles) fetch(j + 1);
    if (j * kMet >= b.own_end) continue;
    float score[kTiles][kMet / 8][4], ds[kTiles][kMet / 8][4];
    R::multiply(score, q, stage(j));
    if constexpr (kMasked) mask<false>(score, own, j * kMet, s, b.slope);
    else if ((j + 1) * kMet - 1 > own) hide<false>(score, own, j * kMet);
    R::multiply(ds, g, stage(j) + kMet * R::kLd);
    PLANNER_UNROLL
    for (int m = 0; m < kTiles; ++m)
      PLANNER_UNROLL
      for (int n = 0; n < kMet / 8; ++n)
        PLANNER_UNROLL
        for (int i = 0; i < 4; ++i) {
          ds[m][n][i] = power_of_two(score[m][n][i] * scale - above[m][i / 2]) *
                        (ds[m][n][i] - less[m][i / 2]);
          if constexpr (kMasked) ds[m][n][i] *= cap_slope(score[m][n][i], s);
        }
    R::add_weighted(acc, ds, stage(j));
  }
  if constexpr (kForm == Form::apart) {
    add_rows<kTiles, kHead>(s, blockIdx.z, blockIdx.y, own, acc);
  } else {
    float factor[kTiles][2];
    for (auto& f : factor) f[0] = f[1] = static_cast<float>(s.scale);
    R::store(dqkv + b.at.q, s.ld, own, seq, s.d, acc, factor, mine);
  }
}

// Grid: {blocks of keys, key heads, samples}; all query heads of the key head, ascending. Queries
// beyond the last are zeros, and so are their gradients: whatever weight they get adds nothing.
template <class A, int kHead, Form kForm>
__global__ void __launch_bounds__(kTensorThreads, 2)
    key_gradient(A* dqkv, const A* dout, const A* qkv, const float* lse, const float* delta,
                 PLANNER_ARGUMENT HeadsOf<kForm> s, PLANNER_ARGUMENT Slopes slopes) {
  using R = Rows<A, kHead>;
  using Of = Backward<kHead, kForm>;
  constexpr bool kMasked = kForm != Form::plain;
  constexpr int kTiles = Of::kTiles, kMet = Of::kMet, kStage = 2 * kMet * R::kLd;
  PLANNER_SHARED(A, memory);
  float* const statistics = reinterpret_cast<float*>(memory + Of::kRows * R::kLd);
  const int group = s.heads / s.kv_heads;
  const A* const keys = keys_of(s, qkv);
  const int first = static_cast<int>(blockIdx.x) * Of::kOwn, seq = static_cast<int>(s.seq);
  const int key_rows = static_cast<int>(s.key_rows());
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int own = first + warp * 16 * kTiles;
  // The first query that sees a key.
  const auto begin_of = [&](int key) {
    return kMasked ? static_cast<int>(s.query_begin(smaller(key, key_rows - 1))) : key;
  };
  const int start = begin_of(first) / kMet, own_begin = begin_of(own);
  const int end =
      kMasked ? static_cast<int>(s.query_end(smaller(first + Of::kOwn, key_rows) - 1)) : seq;
  const int seen = (end + kMet - 1) / kMet - start;
  // Of keys that nobody sees one tile is read, which adds nothing.
  const int tiles = kForm == Form::apart && seen < 1 ? 1 : seen;
  const Place of(s, blockIdx.z, static_cast<int64_t>(blockIdx.y) * group);
  A* const rows = memory + 2 * kStage;  // k, then v
  const auto fetch = [&](int j) {
    const int i = (start + j % tiles) * kMet;
    const Place at(s, blockIdx.z, static_cast<int64_t>(blockIdx.y) * group + j / tiles);
    A* const to = memory + j % 2 * kStage;
    R::template fetch<kMet>(to, qkv + at.q, s.ld, i, seq, s.d);
    R::template fetch<kMet>(to + kMet * R::kLd, dout + at.out, s.out_ld, i, seq, s.d);
    const int c = static_cast<int>(threadIdx.x) % kMet,
              which = static_cast<int>(threadIdx.x) / kMet;
    if (which > 1) return;
    const bool real = i + c < seq;
    const float* const from = (which == 0 ? lse : delta) + at.statistic;
    copy_async<4>(statistics + (2 * (j % 2) + which) * kMet + c, real ? from + i + c : from, real);
  };
  R::template fetch<Of::kOwn>(rows, keys + of.k, s.key_ld(), first, key_rows, s.d);
  R::template fetch<Of::kOwn>(rows + Of::kOwn * R::kLd, keys + v_at(s, of), s.key_ld(), first,
                              key_rows, s.d);
  fetch(0);
  A* const mine = rows + warp * 16 * kTiles * R::kLd;
  const typename R::Read k(mine), v(mine + Of::kOwn * R::kLd);
  float dk[kTiles][kHead / 8][4] = {}, dv[kTiles][kHead / 8][4] = {};
  const float scale = static_cast<float>(s.scale) * kLog2E;
  for (int j = 0; j < tiles * group; ++j) {
    await_copies();
    __syncthreads();
    if (j + 1 < tiles * group) fetch(j + 1);
    const int i = (start + j % tiles) * kMet;
    if (i + kMet - 1 < own_begin) continue;
    const A* const q = memory + j % 2 * kStage;
    const float* const of_query = statistics + j % 2 * (2 * kMet);
    float p[kTiles][kMet / 8][4], ds[kTiles][kMet / 8][4];
    R::multiply(p, k, q);
    if constexpr (kMasked) {
      const int64_t head = static_cast<int64_t>(blockIdx.y) * group + j / tiles;
      mask<true>(p, own, i, s, slopes.count > 0 ? static_cast<float>(slopes.of[head]) : 0);
    } else if (i < own + 16 * kTiles - 1) {
      hide<true>(p, own, i);
    }
    R::multiply(ds, v, q + kMet * R::kLd);
    PLANNER_UNROLL
    for (int n = 0; n < kMet / 8; ++n) {
      const int c = 8 * n + lane % 4 * 2;
      PLANNER_UNROLL
      for (int e = 0; e < 2; ++e) {
        const float above = of_query[c + e] * kLog2E, less = of_query[kMet + c + e];
        PLANNER_UNROLL
        for (int m = 0; m < kTiles; ++m)
          PLANNER_UNROLL
          for (int x = e; x < 4; x += 2) {
            const float by = kMasked ? cap_slope(p[m][n][x], s) : 1;
            p[m][n][x] = power_of_two(p[m][n][x] * scale - above);
            ds[m][n][x] = p[m][n][x] * (ds[m][n][x] - less) * by;
          }
      }
    }
    R::add_weighted(dv, p, q + kMet * R::kLd);
    R::add_weighted(dk, ds, q);
  }
  float factor[kTiles][2];
  for (auto& f : factor) f[0] = f[1] = static_cast<float>(s.scale);
  A* const to = dkeys_of(s, dqkv);
  const auto [k_at, v_to] = gradients_at(s, of, blockIdx.z, blockIdx.y);
  R::store(to + k_at, dkeys_ld(s), own, key_rows, s.d, dk, factor, mine);
  for (auto& f : factor) f[0] = f[1] = 1;
  R::store(to + v_to, dkeys_ld(s), own, key_rows, s.d, dv, factor, mine + Of::kOwn * R::kLd);
}

template <Form kForm>
void backward_pass(const Queue& q, View dqkv, View dout, View qkv, View out, View lse,
                   const HeadsOf<kForm>& s, const host::AttentionShape& shape) {
  const Slopes slopes(shape);
  float* const delta = q.take<float>(shape.samples * s.heads * s.seq);
  with_head<kForm>(one_type(qkv, dqkv, dout, out), s.d, [&]<class A, int kHead>() {
    using Of = Backward<kHead, kForm>;
    launch(q, "tensor_attention_deltas",
           grid_of(s.seq, kTensorThreads / 16, s.heads, shape.samples), {kTensorThreads}, 0,
           row_products<A>, delta, typed<A>(dout), typed<A>(out), static_cast<const Heads&>(s));
    launch(q, "tensor_attention_query_gradient",
           grid_of(s.seq, Of::kOwn, s.heads, shape.samples), {kTensorThreads},
           shared_of<A, kHead, Of>, query_gradient<A, kHead, kForm>, typed<A>(dqkv),
           typed<A>(dout), typed<A>(qkv), typed<float>(lse), delta, s, slopes);
    launch(q, "tensor_attention_key_gradient",
           grid_of(s.key_rows(), Of::kOwn, s.kv_heads, shape.samples), {kTensorThreads},
           shared_of<A, kHead, Of> + Of::kStatistics, key_gradient<A, kHead, kForm>,
           typed<A>(dqkv), typed<A>(dout), typed<A>(qkv), typed<float>(lse), delta, s, slopes);
  });
}

}  // namespace

void tensor_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                     View lse, const host::AttentionShape& s) {
  (plainly_causal(s) ? backward_pass<Form::plain> : backward_pass<Form::masked>)(
      q, dqkv, dout, qkv, out, lse, Heads(s), s);
}

void tensor_block_attention_input_gradient(const Queue& q, View dout, View qkv, View out, View lse,
                                           const ApartHeads& heads,
                                           const host::AttentionShape& s) {
  backward_pass<Form::apart>(q, {}, dout, qkv, out, lse, heads, s);
}

}  // namespace exec::cuda
