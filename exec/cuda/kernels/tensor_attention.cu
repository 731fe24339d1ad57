// Attention of 16-bit types on tensor cores [flash2], forward: scores are never stored, sums are
// in f32, probabilities are rounded to the type before they are multiplied. tensor_passes.cuh says
// what kernels there are, and tensor_attention_gradient.cu has the backward pass.
#include <algorithm>

#include "exec/cuda/kernels/tensor_passes.cuh"

namespace exec::cuda {
namespace {

// Tiles of 16 own rows of a warp, and rows of a tile that all warps meet. A mask takes registers.
template <int kHead, Form kForm>
struct Forward {
  static constexpr int kTiles = kForm == Form::plain ? 2 : 1, kOwn = 16 * kTiles * kTensorWarps;
  static constexpr int kMet = kHead <= kHeadFits ? 64 : 32;
  // Two stages of keys and values. Own rows arrive in the second and move to registers, or stay
  // behind it.
  static constexpr bool kHeld = kHead <= 96;
  static constexpr int kOwnAt = kHeld ? 2 * kMet : 4 * kMet;
  static constexpr int kRows = kOwnAt + (kOwn > 2 * kMet ? kOwn : 2 * kMet);
};
// Merges the results of the warp's rows, from `row` on, into those of the blocks before. Four lanes
// share a row.
template <int kTiles, int kHead>
PLANNER_DEVICE void merge_rows(const ApartHeads& s, const Place& at, int64_t sample, int64_t head,
                               int row, const float (&acc)[kTiles][kHead / 8][4],
                               const float (&top)[kTiles][2], const float (&sum)[kTiles][2],
                               float* lse) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float scale = static_cast<float>(s.scale);
  PLANNER_UNROLL
  for (int m = 0; m < kTiles; ++m)
    PLANNER_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int64_t r = row + 16 * m + 8 * h + lane / 4;
      const bool real = r < s.seq;
      const float earlier = s.is_first() || !real ? 0 : lse[at.statistic + r];
      const Merged<float> merged(s.is_first(), earlier, top[m][h] * scale + log_of(sum[m][h]),
                                 sum[m][h]);
      __syncwarp();                    // all lanes of the row have read it
      if (!real) continue;
      if (lane % 4 == 0) lse[at.statistic + r] = merged.lse;
      PLANNER_UNROLL
      for (int n = 0; n < kHead / 8; ++n)
        PLANNER_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int column = 8 * n + lane % 4 * 2 + i;
          if (column < s.dv)
            s.put(sample * s.seq + r, head * s.dv + column, acc[m][n][2 * h + i] * merged.add,
                  merged.keep);
        }
    }
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
  // lane's columns. Where there is a mask, a row may have seen nothing yet.
  template <Form kForm, int kOthers>
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
        const bool nothing = kForm != Form::plain && most == -INFINITY;
        const float least = nothing ? 0.0F : most;
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
template <class A, int kHead, Form kForm>
__global__ void __launch_bounds__(kTensorThreads, 2)
    forward(A* out, float* lse, const A* qkv, const A* sinks,
            PLANNER_ARGUMENT HeadsOf<kForm> s, PLANNER_ARGUMENT Slopes slopes) {
  using R = Rows<A, kHead>;
  using Of = Forward<kHead, kForm>;
  constexpr bool kMasked = kForm != Form::plain;
  constexpr int kTiles = Of::kTiles, kMet = Of::kMet;
  PLANNER_SHARED(A, memory);
  const QueryBlock<kForm, Of> b(s, slopes);
  const int own = b.own, seq = b.seq, tiles = b.tiles;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  // The first tile arrives where own rows do not.
  const auto stage = [&](int j) { return memory + (j - b.start) % 2 * (2 * kMet * R::kLd); };
  const auto fetch = [&](int j) { b.template fetch<R>(s, qkv, stage(j), j); };
  A* const rows = memory + Of::kOwnAt * R::kLd;
  R::template fetch<Of::kOwn>(rows, qkv + b.at.q, s.ld, b.first, seq, s.d);
  fetch(b.start);
  await_copies();
  __syncthreads();
  using Own = std::conditional_t<Of::kHeld, typename R::template Held<kTiles>, typename R::Read>;
  const Own q(rows + warp * 16 * kTiles * R::kLd);

  const bool sunk = kMasked && sinks != nullptr;
  Running<kTiles, kHead> run(sunk ? widen(sinks[blockIdx.y]) / static_cast<float>(s.scale)
                                  : -INFINITY);
  const float scale = static_cast<float>(s.scale) * kLog2E;
  for (int j = b.start; j < tiles; ++j) {
    await_copies();
    __syncthreads();                   // the tile is here, and nobody reads the one before
    if (j + 1 < tiles) fetch(j + 1);
    if (j * kMet >= b.own_end) continue;
    float score[kTiles][kMet / 8][4];
    R::multiply(score, q, stage(j));
    if constexpr (kMasked) mask<false>(score, own, j * kMet, s, b.slope);
    else if ((j + 1) * kMet - 1 > own) hide<false>(score, own, j * kMet);
    run.template take<kForm>(score, scale);
    R::add_weighted(run.out, score, stage(j) + kMet * R::kLd);
  }

  __syncthreads();
  if constexpr (kForm == Form::apart) {
    for (auto& sums : run.sum)
      for (float& sum : sums) sum = over_quad(sum, Plus{});
    merge_rows<kTiles, kHead>(s, b.at, blockIdx.z, blockIdx.y, own, run.out, run.top, run.sum, lse);
  } else {
    float factor[kTiles][2];
    for (int m = 0; m < kTiles; ++m)
      for (int h = 0; h < 2; ++h) {
        const float sum = over_quad(run.sum[m][h], Plus{});
        const int row = own + 16 * m + 8 * h + lane / 4;
        factor[m][h] = 1.0F / sum;
        if (lane % 4 == 0 && row < seq)
          lse[b.at.statistic + row] = run.top[m][h] * static_cast<float>(s.scale) + log_of(sum);
      }
    R::store(out + b.at.out, s.out_ld, own, seq, s.d, run.out, factor,
             memory + warp * 16 * kTiles * R::kLd);
  }
}

template <Form kForm>
void forward_pass(const Queue& q, View out, View lse, View qkv, const HeadsOf<kForm>& s,
                  const host::AttentionShape& shape, View sinks) {
  const Slopes slopes(shape);
  with_head<kForm>(one_type(qkv, out, sinks), s.d, [&]<class A, int kHead>() {
    using Of = Forward<kHead, kForm>;
    launch(q, "tensor_attention", grid_of(s.seq, Of::kOwn, s.heads, shape.samples),
           {kTensorThreads}, shared_of<A, kHead, Of>, forward<A, kHead, kForm>, typed<A>(out),
           typed<float>(lse), typed<A>(qkv), typed<A>(sinks), s, slopes);
  });
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

void tensor_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
                      View sinks) {
  const bool plain = !sinks && plainly_causal(s);
  (plain ? forward_pass<Form::plain> : forward_pass<Form::masked>)(q, out, lse, qkv, Heads(s), s,
                                                                    sinks);
}

void tensor_block_attention(const Queue& q, View lse, View qkv, const ApartHeads& heads,
                            const host::AttentionShape& s, View sinks) {
  forward_pass<Form::apart>(q, {}, lse, qkv, heads, s, sinks);
}

}  // namespace exec::cuda
