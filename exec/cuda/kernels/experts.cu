// Mixtures of experts: the rows' way to their experts and back, and the experts' products: one for
// all experts of an origin where each has as many rows, else one for each.
#include "exec/cuda/kernels/integers.cuh"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/warp_rows.cuh"

namespace exec::cuda {
namespace {

constexpr int64_t kRowWarps = 8;       // of a block that adds up rows of an expert

// ---- rows and their copies: one pack of a row a thread, or a warp a copy

template <class A>
struct Copies {
  const std::int32_t* places;
  int64_t rows, n;
  int chosen;
  static constexpr int kSize = Pack<A>::kSize;
  PLANNER_DEVICE int64_t packs() const { return (n + kSize - 1) / kSize; }
};

// y[place] = x[row]
template <class A>
__global__ void copy_rows(A* y, const A* x, Copies<A> c) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= c.rows * c.packs()) return;
  const int64_t r = at / c.packs(), i = at % c.packs() * kSize;
  const bool wide = c.n % kSize == 0 && aligned(y) && aligned(x);
  Compute<A> v[kSize];
  load_pack(x + r * c.n, i, c.n, wide, v);
  for (int k = 0; k < c.chosen; ++k)
    store_pack(y + c.places[r * c.chosen + k] * c.n, i, c.n, wide, v);
}

// y[row] (=|+=) sum of gate x[place], of x[place] where there are no gates.
template <class A>
__global__ void sum_copies(A* y, const A* x, const A* gates, Copies<A> c, bool accumulate) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= c.rows * c.packs()) return;
  const int64_t r = at / c.packs(), i = at % c.packs() * kSize;
  const bool wide = c.n % kSize == 0 && aligned(y) && aligned(x);
  T sum[kSize] = {}, v[kSize];
  for (int k = 0; k < c.chosen; ++k) {
    const T gate = gates != nullptr ? widen(gates[r * c.chosen + k]) : T(1);
    load_pack(x + c.places[r * c.chosen + k] * c.n, i, c.n, wide, v);
    for (int j = 0; j < kSize; ++j) sum[j] += gate * v[j];
  }
  if (accumulate) {
    load_pack(static_cast<const A*>(y) + r * c.n, i, c.n, wide, v);
    for (int j = 0; j < kSize; ++j) sum[j] += v[j];
  }
  store_pack(y + r * c.n, i, c.n, wide, sum);
}

// dx[place] = gate dy[row]; dgate = x[place] . dy[row]. One warp a copy.
template <class A>
__global__ void combine_copies_gradient(A* dx, A* dgates, const A* dy, const A* x, const A* gates,
                                        Copies<A> c) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t copy = own_row(c.rows * c.chosen);
  if (copy < 0) return;
  const bool wide = c.n % kSize == 0 && aligned(dx) && aligned(dy) && aligned(x);
  const int64_t to = c.places[copy] * c.n, from = copy / c.chosen * c.n;
  const T gate = gates != nullptr ? widen(gates[copy]) : T(1);
  T dot = T(0);
  for_packs<A>(c.n, [&](int64_t i) {
    T d[kSize], v[kSize];
    load_pack(dy + from, i, c.n, wide, d);
    load_pack(x + to, i, c.n, wide, v);
    for (int j = 0; j < kSize; ++j) {
      dot += v[j] * d[j];
      d[j] *= gate;
    }
    store_pack(dx + to, i, c.n, wide, d);
  });
  dot = over_warp(dot, Plus{});
  if (threadIdx.x % 32 == 0) narrow(gates != nullptr ? dot : T(0), dgates[copy]);
}

// ---- biases of experts

// Rows of all samples lie by origin, then by expert.
struct Blocks {
  int64_t samples, each, origins, experts, n;   // each: rows of a sample and an origin
  int64_t first_column, columns, ld;
  explicit Blocks(const host::ExpertShape& s)
      : samples(s.samples), each(s.rows / s.origins), origins(s.origins), experts(s.experts),
        n(s.n), first_column(s.first_biased), columns(s.biased), ld(s.bias_ld) {}
  PLANNER_EVERYWHERE int64_t begin(int64_t origin, int64_t expert) const {
    return samples * (origin * each + each * expert / experts);
  }
  PLANNER_EVERYWHERE int64_t end(int64_t origin, int64_t expert) const {
    return samples * (origin * each + each * (expert + 1) / experts);
  }
};

// y[rows of an expert, its biased columns] += b. Grid: {column blocks, experts, origins}.
template <class A>
__global__ void add_expert_bias(A* y, const A* bias, Blocks s) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t c =
      (static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x % 32) * kSize;
  if (c >= s.columns) return;
  const A* const own = bias + blockIdx.y * s.ld;
  const bool wide = s.first_column % kSize == 0 && s.n % kSize == 0 && s.ld % kSize == 0 &&
                    aligned(y) && aligned(bias);
  Compute<A> b[kSize];
  load_pack(own, c, s.columns, wide, b);
  const int64_t last = s.end(blockIdx.z, blockIdx.y);
  for (int64_t r = s.begin(blockIdx.z, blockIdx.y) + threadIdx.x / 32; r < last; r += kRowWarps) {
    A* const to = y + r * s.n + s.first_column;
    Compute<A> v[kSize];
    load_pack(static_cast<const A*>(to), c, s.columns, wide, v);
    for (int j = 0; j < kSize; ++j) v[j] += b[j];
    store_pack(to, c, s.columns, wide, v);
  }
}

// db += sums over the expert's rows: warps take rows in turn, origins ascending, then the warps.
// Grid: {column blocks, experts}.
template <class A>
__global__ void expert_bias_gradient(Real db, const A* dy, Blocks s) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize, kColumns = 32 * kSize;
  __shared__ T of_warp[kRowWarps][kColumns];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns, own = column + lane * kSize;
  const bool wide = s.first_column % kSize == 0 && s.n % kSize == 0 && aligned(dy);
  T sums[kSize] = {};
  for (int64_t o = 0; own < s.columns && o < s.origins; ++o) {
    const int64_t last = s.end(o, blockIdx.y);
    for (int64_t r = s.begin(o, blockIdx.y) + warp; r < last; r += kRowWarps) {
      T v[kSize];
      load_pack(dy + r * s.n + s.first_column, own, s.columns, wide, v);
      for (int j = 0; j < kSize; ++j) sums[j] += v[j];
    }
  }
  PLANNER_UNROLL
  for (int j = 0; j < kSize; ++j) of_warp[warp][lane * kSize + j] = sums[j];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kColumns; i += static_cast<int>(blockDim.x)) {
    if (column + i >= s.columns) continue;
    const int64_t at = blockIdx.y * s.ld + column + i;
    T sum = load_real<T>(db, at);
    for (int w = 0; w < kRowWarps; ++w) sum += of_warp[w][i];
    store_real(db, at, sum);
  }
}

template <class A>
Copies<A> copies(const View& places, const host::CopyShape& s) {
  return {integers(places), s.rows, s.n, static_cast<int>(s.chosen)};
}

}  // namespace

void dispatch(const Queue& q, View y, View x, View places, const host::CopyShape& s) {
  with_type(one_type(y, x), [&]<class A>() {
    launch(q, "dispatch", {pack_blocks<A>(s.rows, s.n)}, {kThreads}, 0, copy_rows<A>, typed<A>(y),
           typed<A>(x), copies<A>(places, s));
  });
}
void dispatch_gradient(const Queue& q, View dx, View dy, View places, const host::CopyShape& s,
                       bool accumulate) {
  with_type(one_type(dx, dy), [&]<class A>() {
    launch(q, "dispatch_gradient", {pack_blocks<A>(s.rows, s.n)}, {kThreads}, 0, sum_copies<A>,
           typed<A>(dx), typed<A>(dy), nullptr, copies<A>(places, s), accumulate);
  });
}
void combine(const Queue& q, View y, View x, View gates, View places, const host::CopyShape& s) {
  with_type(one_type(y, x, gates), [&]<class A>() {
    launch(q, "combine", {pack_blocks<A>(s.rows, s.n)}, {kThreads}, 0, sum_copies<A>, typed<A>(y),
           typed<A>(x), s.weighs ? typed<A>(gates) : nullptr, copies<A>(places, s), false);
  });
}
void combine_gradient(const Queue& q, View dx, View dgates, View dy, View x, View gates,
                      View places, const host::CopyShape& s) {
  with_type(one_type(dx, dgates, dy, x, gates), [&]<class A>() {
    launch(q, "combine_gradient", {blocks_of(s.rows * s.chosen, kRowsOfBlock)}, {kRowThreads}, 0,
           combine_copies_gradient<A>, typed<A>(dx), typed<A>(dgates), typed<A>(dy), typed<A>(x),
           s.weighs ? typed<A>(gates) : nullptr, copies<A>(places, s));
  });
}

// ---- products, as few as their blocks of rows allow

namespace {

// multiply(first row, rows of an expert, first expert, experts) for blocks of as many rows, one
// behind the other: all experts of an origin, or one where their rows differ in number.
template <class Multiply>
void for_products(const host::ExpertShape& s, Multiply&& multiply) {
  const Blocks blocks(s);
  if (blocks.each == 0 || s.samples == 0) return;
  const bool alike = blocks.each % s.experts == 0;
  for (int64_t o = 0; o < s.origins; ++o)
    for (int64_t e = 0; e < s.experts; e += alike ? s.experts : 1) {
      const int64_t first = blocks.begin(o, e), rows = blocks.end(o, e) - first;
      if (rows > 0) multiply(first, rows, e, alike ? s.experts : 1);
    }
}

void give(const Queue& q, const host::MixedGemm& product) {
  q.api.multiply(product, q.workspace, q.stream);
}

}  // namespace

void expert_linear(const Queue& q, View y, View x, View w, View b, const host::ExpertShape& s) {
  for_products(s, [&](int64_t first, int64_t rows, int64_t e, int64_t experts) {
    give(q, {.m = rows, .n = s.n, .k = s.k,
             .a = {x.at(first * s.k), s.k, false, rows * s.k},
             .b = {w.at(e * s.n * s.k), s.k, true, s.n * s.k},
             .c = {y.at(first * s.n), s.n, false, rows * s.n}, .count = experts});
  });
  if (!b || s.biased == 0) return;
  with_type(one_type(y, b), [&]<class A>() {
    launch(q, "expert_bias",
           {blocks_of(s.biased, 32 * Pack<A>::kSize), static_cast<unsigned>(s.experts),
            static_cast<unsigned>(s.origins)},
           {static_cast<unsigned>(32 * kRowWarps)}, 0, add_expert_bias<A>, typed<A>(y),
           typed<A>(b), Blocks(s));
  });
}
void expert_linear_input_gradient(const Queue& q, View dx, View dy, View w,
                                  const host::ExpertShape& s, bool accumulate) {
  for_products(s, [&](int64_t first, int64_t rows, int64_t e, int64_t experts) {
    give(q, {.m = rows, .n = s.k, .k = s.n,
             .a = {dy.at(first * s.n), s.n, false, rows * s.n},
             .b = {w.at(e * s.n * s.k), s.k, false, s.n * s.k},
             .c = {dx.at(first * s.k), s.k, false, rows * s.k}, .accumulate = accumulate,
             .count = experts});
  });
}
void expert_linear_weight_gradient(const Queue& q, View dw, View db, View dy, View x,
                                   const host::ExpertShape& s) {
  for_products(s, [&](int64_t first, int64_t rows, int64_t e, int64_t experts) {
    give(q, {.m = s.n, .n = s.k, .k = rows,
             .a = {dy.at(first * s.n), s.n, true, rows * s.n},
             .b = {x.at(first * s.k), s.k, false, rows * s.k},
             .c = {dw.at(e * s.n * s.k), s.k, false, s.n * s.k}, .accumulate = true,
             .count = experts});
  });
  if (!db || s.biased == 0) return;
  with_type(dy.type, [&]<class A>() {
    launch(q, "expert_bias_gradient",
           {blocks_of(s.biased, 32 * Pack<A>::kSize), static_cast<unsigned>(s.experts)},
           {static_cast<unsigned>(32 * kRowWarps)}, 0, expert_bias_gradient<A>, real(db),
           typed<A>(dy), Blocks(s));
  });
}

}  // namespace exec::cuda
