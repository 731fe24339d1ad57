// Attention of 16-bit types on tensor cores [flash2]: scores are never stored, sums are in f32,
// probabilities and their gradients are rounded to the type where they become an operand. Kernels
// are made twice: for plainly causal attention, and (kMasked) for windows, chunks, no mask, capped
// scores, linear biases and sinks.
//
// The backward pass computes scores twice, once by rows (dq) and once by columns (dk, dv): 7
// products where a pass with atomic sums has 5, but every sum has one owner and one order, so the
// same inputs give the same bits.
//
// Registers of a thread (of 256, so that two blocks fit a multiprocessor), by head size; nothing
// spills (-Xptxas -v, CUDA 13.0, bf16; f16 alike), and shared bytes of a block:
//                      32    64    80    96   128
//   forward     sm_80  177   244   228   255   245
//               sm_90  180   244   226   249   243
//   bytes            20480 36864 33792 39936 69632
//   query       sm_80  166   238   156   178   215
//   gradient    sm_90  168   239   158   182   209
//   key         sm_80  183   250   181   202   236
//   gradient    sm_90  192   247   183   198   230
//   bytes            30720 55296 45056 53248 69632, key gradient 512 more
// sm_86 takes what sm_80 does; there its 100 KiB leave one block of 55296 bytes or more.
#include <algorithm>

#include "exec/cuda/kernels/attention_tiles.cuh"

namespace exec::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634F;
constexpr int kHeadFits = 64;          // two tiles of rows a warp up to here: registers

// Tiles of 16 own rows of a warp, and rows of a tile that all warps meet. A mask takes registers.
template <int kHead, bool kMasked>
struct Forward {
  static constexpr int kTiles = kMasked ? 1 : 2, kOwn = 16 * kTiles * kTensorWarps;
  static constexpr int kMet = kHead <= kHeadFits ? 64 : 32;
  // Two stages of keys and values. Own rows arrive in the second and move to registers, or stay
  // behind it.
  static constexpr bool kHeld = kHead <= 96;
  static constexpr int kOwnAt = kHeld ? 2 * kMet : 4 * kMet;
  static constexpr int kRows = kOwnAt + (kOwn > 2 * kMet ? kOwn : 2 * kMet);
};
template <int kHead, bool kMasked>
struct Backward {
  static constexpr int kTiles = kHead <= kHeadFits && !kMasked ? 2 : 1;
  static constexpr int kOwn = 16 * kTiles * kTensorWarps;
  static constexpr int kMet = 32;
  static constexpr int kRows = 2 * kOwn + 4 * kMet;  // both own matrices, two stages
  // Of two stages of queries: lse and delta.
  static constexpr std::size_t kStatistics = 4 * kMet * sizeof(float);
};

template <class A, int kHead, class Of>
constexpr std::size_t shared_of = static_cast<std::size_t>(Of::kRows) *
                                  static_cast<std::size_t>(Rows<A, kHead>::kLd) * sizeof(A);

// The first value of a place: behind the keys, from where an address is kept already.
PLANNER_DEVICE int64_t v_at(const Heads& s, const Place& at) {
  return at.k + static_cast<int64_t>(s.kv_heads) * s.d;
}

// A row's greatest score so far, the sum of its weights, and what they make of its values.
template <int kTiles, int kHead>
struct Running {
  float top[kTiles][2], sum[kTiles][2], out[kTiles][kHead / 8][4];
  // first: a score that every row has and that has no value, or -INFINITY.
  PLANNER_DEVICE explicit Running(float first) {
    const bool counts = first != -INFINITY && threadIdx.x % 4 == 0;  // once of a row's lanes
    for (int m = 0; m < kTiles; ++m) {
      for (int h = 0; h < 2; ++h) top[m][h] = first, sum[m][h] = counts ? 1.0F : 0.0F;
      for (auto& x : out[m])
        for (float& y : x) y = 0;
    }
  }

  // Scores become weights; what was summed shrinks to the new greatest score. `sum` is of this
  // lane's columns. kMasked: a row may have seen nothing yet.
  template <bool kMasked, int kOthers>
  PLANNER_DEVICE void take(float (&s)[kTiles][kOthers][4], float scale) {
    PLANNER_UNROLL
    for (int m = 0; m < kTiles; ++m)
      PLANNER_UNROLL
      for (int h = 0; h < 2; ++h) {
        float most = top[m][h];
        PLANNER_UNROLL
        for (int n = 0; n < kOthers; ++n)
          most = fmaxf(most, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
        most = over_quad(most, [](float a, float b) { return fmaxf(a, b); });
        const float least = kMasked && most == -INFINITY ? 0.0F : most;
        const float shrink = power_of_two((top[m][h] - least) * scale), base = least * scale;
        top[m][h] = most;
        sum[m][h] *= shrink;
        PLANNER_UNROLL
        for (int n = 0; n < kOthers; ++n)
          PLANNER_UNROLL
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            s[m][n][i] = power_of_two(s[m][n][i] * scale - base);
            sum[m][h] += s[m][n][i];
          }
        PLANNER_UNROLL
        for (int n = 0; n < kHead / 8; ++n)
          for (int i = 2 * h; i < 2 * h + 2; ++i) out[m][n][i] *= shrink;
      }
  }
};

// Grid: {blocks of rows, heads, samples}; the longest rows first.
template <class A, int kHead, bool kMasked>
__global__ void __launch_bounds__(kTensorThreads, 2)
    forward(A* out, float* lse, const A* qkv, const A* sinks, Heads s,
            PLANNER_ARGUMENT Slopes slopes) {
  using R = Rows<A, kHead>;
  using Of = Forward<kHead, kMasked>;
  constexpr int kTiles = Of::kTiles, kMet = Of::kMet;
  PLANNER_SHARED(A, memory);
  const Place at(s, blockIdx.z, blockIdx.y);
  const int seq = static_cast<int>(s.seq);
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Of::kOwn;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int own = first + warp * 16 * kTiles;
  const int tiles = tiles_of<kMasked>(s, first + Of::kOwn, kMet);
  const int start = kMasked ? static_cast<int>(s.first_key(first)) / kMet : 0;
  const float slope = kMasked && slopes.count > 0 ? static_cast<float>(slopes.of[blockIdx.y]) : 0;
  // The first tile arrives where own rows do not.
  const auto stage = [&](int j) { return memory + (j - start) % 2 * (2 * kMet * R::kLd); };
  const auto fetch = [&](int j) {
    R::template fetch<kMet>(stage(j), qkv + at.k, s.ld, j * kMet, seq, s.d);
    R::template fetch<kMet>(stage(j) + kMet * R::kLd, qkv + v_at(s, at), s.ld, j * kMet, seq, s.d);
  };
  A* const rows = memory + Of::kOwnAt * R::kLd;
  R::template fetch<Of::kOwn>(rows, qkv + at.q, s.ld, first, seq, s.d);
  fetch(start);
  await_copies();
  __syncthreads();
  using Own = std::conditional_t<Of::kHeld, typename R::template Held<kTiles>, typename R::Read>;
  const Own q(rows + warp * 16 * kTiles * R::kLd);

  const bool sunk = kMasked && sinks != nullptr;
  Running<kTiles, kHead> run(sunk ? widen(sinks[blockIdx.y]) / static_cast<float>(s.scale)
                                  : -INFINITY);
  const float scale = static_cast<float>(s.scale) * kLog2E;
  for (int j = start; j < tiles; ++j) {
    await_copies();
    __syncthreads();                   // the tile is here, and nobody reads the one before
    if (j + 1 < tiles) fetch(j + 1);
    if ((!kMasked || s.causal) && j * kMet > own + 16 * kTiles - 1) continue;
    float score[kTiles][kMet / 8][4];
    R::multiply(score, q, stage(j));
    if constexpr (kMasked) mask<false>(score, own, j * kMet, s, slope);
    else if ((j + 1) * kMet - 1 > own) hide<false>(score, own, j * kMet);
    run.template take<kMasked>(score, scale);
    R::add_weighted(run.out, score, stage(j) + kMet * R::kLd);
  }

  __syncthreads();
  float factor[kTiles][2];
  for (int m = 0; m < kTiles; ++m)
    for (int h = 0; h < 2; ++h) {
      const float sum = over_quad(run.sum[m][h], Plus{});
      const int row = own + 16 * m + 8 * h + lane / 4;
      factor[m][h] = 1.0F / sum;
      if (lane % 4 == 0 && row < seq)
        lse[at.statistic + row] = run.top[m][h] * static_cast<float>(s.scale) + log_of(sum);
    }
  R::store(out + at.out, s.out_ld, own, seq, s.d, run.out, factor,
           memory + warp * 16 * kTiles * R::kLd);
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
template <class A, int kHead, bool kMasked>
__global__ void __launch_bounds__(kTensorThreads, 2)
    query_gradient(A* dqkv, const A* dout, const A* qkv, const float* lse, const float* delta,
                   Heads s, PLANNER_ARGUMENT Slopes slopes) {
  using R = Rows<A, kHead>;
  using Of = Backward<kHead, kMasked>;
  constexpr int kTiles = Of::kTiles, kMet = Of::kMet;
  PLANNER_SHARED(A, memory);
  const Place at(s, blockIdx.z, blockIdx.y);
  const int seq = static_cast<int>(s.seq);
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Of::kOwn;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int own = first + warp * 16 * kTiles;
  const int tiles = tiles_of<kMasked>(s, first + Of::kOwn, kMet);
  const int start = kMasked ? static_cast<int>(s.first_key(first)) / kMet : 0;
  const float slope = kMasked && slopes.count > 0 ? static_cast<float>(slopes.of[blockIdx.y]) : 0;
  A* const rows = memory + 4 * kMet * R::kLd;  // q, then dout
  const auto stage = [&](int j) { return memory + j % 2 * (2 * kMet * R::kLd); };
  const auto fetch = [&](int j) {
    R::template fetch<kMet>(stage(j), qkv + at.k, s.ld, j * kMet, seq, s.d);
    R::template fetch<kMet>(stage(j) + kMet * R::kLd, qkv + v_at(s, at), s.ld, j * kMet, seq, s.d);
  };
  R::template fetch<Of::kOwn>(rows, qkv + at.q, s.ld, first, seq, s.d);
  R::template fetch<Of::kOwn>(rows + Of::kOwn * R::kLd, dout + at.out, s.out_ld, first, seq, s.d);
  fetch(start);
  await_copies();
  __syncthreads();
  A* const mine = rows + warp * 16 * kTiles * R::kLd;
  const typename R::template Held<kTiles> q(mine), g(mine + Of::kOwn * R::kLd);
  float above[kTiles][2], less[kTiles][2], acc[kTiles][kHead / 8][4] = {};
  for (int m = 0; m < kTiles; ++m)
    for (int h = 0; h < 2; ++h) {
      const int row = own + 16 * m + 8 * h + lane / 4;
      above[m][h] = row < seq ? lse[at.statistic + row] * kLog2E : 0;
      less[m][h] = row < seq ? delta[at.statistic + row] : 0;
    }

  const float scale = static_cast<float>(s.scale) * kLog2E;
  for (int j = start; j < tiles; ++j) {
    await_copies();
    __syncthreads();
    if (j + 1 < tiles) fetch(j + 1);
    if ((!kMasked || s.causal) && j * kMet > own + 16 * kTiles - 1) continue;
    float score[kTiles][kMet / 8][4], ds[kTiles][kMet / 8][4];
    R::multiply(score, q, stage(j));
    if constexpr (kMasked) mask<false>(score, own, j * kMet, s, slope);
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
  float factor[kTiles][2];
  for (auto& f : factor) f[0] = f[1] = static_cast<float>(s.scale);
  R::store(dqkv + at.q, s.ld, own, seq, s.d, acc, factor, mine);
}

// Grid: {blocks of keys, key heads, samples}; all query heads of the key head, ascending. Queries
// beyond the last are zeros, and so are their gradients: whatever weight they get adds nothing.
template <class A, int kHead, bool kMasked>
__global__ void __launch_bounds__(kTensorThreads, 2)
    key_gradient(A* dqkv, const A* dout, const A* qkv, const float* lse, const float* delta,
                 Heads s, PLANNER_ARGUMENT Slopes slopes) {
  using R = Rows<A, kHead>;
  using Of = Backward<kHead, kMasked>;
  constexpr int kTiles = Of::kTiles, kMet = Of::kMet, kStage = 2 * kMet * R::kLd;
  PLANNER_SHARED(A, memory);
  float* const statistics = reinterpret_cast<float*>(memory + Of::kRows * R::kLd);
  const int group = s.heads / s.kv_heads;
  const int first = static_cast<int>(blockIdx.x) * Of::kOwn, seq = static_cast<int>(s.seq);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int own = first + warp * 16 * kTiles;
  const int start = !kMasked || s.causal ? first / kMet : 0;
  const int end = kMasked ? static_cast<int>(s.query_end(smaller(first + Of::kOwn, seq) - 1)) : seq;
  const int tiles = (end + kMet - 1) / kMet - start;
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
  R::template fetch<Of::kOwn>(rows, qkv + of.k, s.ld, first, seq, s.d);
  R::template fetch<Of::kOwn>(rows + Of::kOwn * R::kLd, qkv + v_at(s, of), s.ld, first, seq, s.d);
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
    if ((!kMasked || s.causal) && i + kMet - 1 < own) continue;
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
  R::store(dqkv + of.k, s.ld, own, seq, s.d, dk, factor, mine);
  for (auto& f : factor) f[0] = f[1] = 1;
  R::store(dqkv + v_at(s, of), s.ld, own, seq, s.d, dv, factor, mine + Of::kOwn * R::kLd);
}

// body.template operator()<A, kHead, kMasked>().
template <class Body>
void with_head(core::DType type, int d, bool masked, Body&& body) {
  const auto of = [&]<class A>() {
    if (masked && d <= 64) return body.template operator()<A, 64, true>();
    if (masked) return body.template operator()<A, 128, true>();
    if (d <= 32) return body.template operator()<A, 32, false>();
    if (d <= 64) return body.template operator()<A, 64, false>();
    if (d <= 80) return body.template operator()<A, 80, false>();
    if (d <= 96) return body.template operator()<A, 96, false>();
    return body.template operator()<A, 128, false>();
  };
  return type == core::DType::bf16 ? of.template operator()<bf16>() : of.template operator()<f16>();
}

Extent grid_of(const Heads& s, int rows, int heads, int64_t samples) {
  return {blocks_of(s.seq, rows), static_cast<unsigned>(heads), static_cast<unsigned>(samples)};
}

}  // namespace

bool fits_tensor_cores(const host::AttentionShape& s, std::initializer_list<View> views) {
  const auto fits = [](const View& v) {
    const bool half = v.type == core::DType::bf16 || v.type == core::DType::f16;
    return half && reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
  };
  // cap_slope() finds a capped score where no bias was added to it.
  const bool either = s.soft_cap == 0 || s.biases.all_heads == 0;
  return s.values() == s.head_dim && s.head_dim % 8 == 0 && s.head_dim <= 128 && either &&
         std::ranges::all_of(views, fits);
}

void tensor_attention(const Queue& q, View out, View lse, View qkv,
                      const host::AttentionShape& shape, View sinks) {
  const Heads s(shape);
  const Slopes slopes(shape);
  const bool masked = sinks || !plainly_causal(shape);
  with_head(one_type(out, qkv, sinks), s.d, masked, [&]<class A, int kHead, bool kMasked>() {
    using Of = Forward<kHead, kMasked>;
    launch(q, "tensor_attention", grid_of(s, Of::kOwn, s.heads, shape.samples), {kTensorThreads},
           shared_of<A, kHead, Of>, forward<A, kHead, kMasked>, typed<A>(out), typed<float>(lse),
           typed<A>(qkv), typed<A>(sinks), s, slopes);
  });
}

void tensor_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                     View lse, const host::AttentionShape& shape) {
  const Heads s(shape);
  const Slopes slopes(shape);
  float* const delta = q.take<float>(shape.samples * s.heads * s.seq);
  const auto run = [&]<class A, int kHead, bool kMasked>() {
    using Of = Backward<kHead, kMasked>;
    launch(q, "tensor_attention_deltas", grid_of(s, kTensorThreads / 16, s.heads, shape.samples),
           {kTensorThreads}, 0, row_products<A>, delta, typed<A>(dout), typed<A>(out), s);
    launch(q, "tensor_attention_query_gradient", grid_of(s, Of::kOwn, s.heads, shape.samples),
           {kTensorThreads}, shared_of<A, kHead, Of>, query_gradient<A, kHead, kMasked>,
           typed<A>(dqkv), typed<A>(dout), typed<A>(qkv), typed<float>(lse), delta, s, slopes);
    launch(q, "tensor_attention_key_gradient", grid_of(s, Of::kOwn, s.kv_heads, shape.samples),
           {kTensorThreads}, shared_of<A, kHead, Of> + Of::kStatistics,
           key_gradient<A, kHead, kMasked>, typed<A>(dqkv), typed<A>(dout), typed<A>(qkv),
           typed<float>(lse), delta, s, slopes);
  };
  with_head(one_type(dqkv, dout, qkv, out), s.d, !plainly_causal(shape), run);
}

}  // namespace exec::cuda
