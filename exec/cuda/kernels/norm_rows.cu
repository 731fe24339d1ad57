// Norms of rows in registers (norm_rows.cuh). The gradients of gamma and beta are made of what the
// input's gradient reads: each block adds up its own rows, in registers, then the blocks' sums are
// added in order. A step of GPT-2 124M on an H200 spent 5.1 ms in norms when each of these read its
// rows again (reports/measured/h200_steps.json).
#include "exec/cuda/kernels/norm_rows.cuh"

#include <algorithm>

#include "exec/cuda/kernels/column_sums.cuh"

namespace exec::cuda {
namespace {

constexpr int kWarps = 8;              // of a block, at least
constexpr int kMostWarps = 16;         // of a row
// The most packs of a row that a thread has. A gradient also needs registers for its sums.
constexpr int kForwardPacks = 3, kGradientPacks = 2;

// How rows are spread over the warps of a block. A row has 2^shift warps: kernels divide by it.
struct Spread {
  int shift = 0, packs = 0;            // of a row, of a thread; packs 0: it does not fit
  int warps() const { return 1 << shift; }
  int groups() const { return warps() < kWarps ? kWarps / warps() : 1; }  // rows of a block
  Extent block() const { return {static_cast<unsigned>(32 * warps() * groups())}; }
};
template <class A>
Spread spread(int64_t n, int most_packs) {
  for (int shift = 0; 1 << shift <= kMostWarps; ++shift)
    for (int packs = kGradientPacks; packs <= most_packs; ++packs)
      if (n <= int64_t{32} * (1 << shift) * packs * Pack<A>::kSize) return {shift, packs};
  return {};
}

// The row of this thread among those that a block has at once, and its place in the row.
struct Place {
  int group, thread, threads, shift;
  PLANNER_DEVICE explicit Place(int row_shift)
      : group(static_cast<int>(threadIdx.x >> (5 + row_shift))),
        thread(static_cast<int>(threadIdx.x & ((32U << row_shift) - 1))),
        threads(32 << row_shift),
        shift(row_shift) {}
  PLANNER_DEVICE int groups() const { return static_cast<int>(blockDim.x >> (5 + shift)); }
  // First element of the thread's p-th pack.
  template <class A>
  PLANNER_DEVICE int element(int p) const { return (p * threads + thread) * Pack<A>::kSize; }
};

// Sums over the warps of a row, on all of its threads. Every thread of the block comes here.
template <class T, int kSums>
PLANNER_DEVICE void over_row(T (&sums)[kSums], int shift) {
  PLANNER_UNROLL
  for (int s = 0; s < kSums; ++s) sums[s] = over_warp(sums[s], Plus{});
  if (shift == 0) return;
  __shared__ T of_warp[kMostWarps][kSums];
  const int warp = static_cast<int>(threadIdx.x) / 32, first = warp >> shift << shift;
  __syncthreads();                     // sums before may still be read
  if (threadIdx.x % 32 == 0) {
    PLANNER_UNROLL
    for (int s = 0; s < kSums; ++s) of_warp[warp][s] = sums[s];
  }
  __syncthreads();
  PLANNER_UNROLL
  for (int s = 0; s < kSums; ++s) {
    sums[s] = of_warp[first][s];
    for (int w = 1; w < 1 << shift; ++w) sums[s] += of_warp[first + w][s];
  }
}

// What a row is multiplied by: gamma and its offset, or the offset alone.
template <class A>
PLANNER_DEVICE void load_gamma(const A* gamma, int i, const NormRows& rows, Compute<A>* out) {
  Words words{};
  if (gamma != nullptr) words = raw(gamma + i);
  widened<A>(words, out);
  PLANNER_UNROLL
  for (int j = 0; j < Pack<A>::kSize; ++j) out[j] += static_cast<Compute<A>>(rows.gamma_offset);
}
// What was computed of it is computed again: 32-bit values of a row would take twice the registers.
PLANNER_DEVICE void keep_raw(Words& words) {
#if defined(__CUDACC__)
  asm volatile("" : "+r"(words.of[0]), "+r"(words.of[1]), "+r"(words.of[2]), "+r"(words.of[3]));
#else
  static_cast<void>(words);
#endif
}

// y = (x - mean) rstd gamma + beta (kCentred), or x rstd (offset + gamma). kAdds: x = a + b first,
// stored.
template <class A, bool kCentred, bool kAdds, int kPacks>
__global__ __launch_bounds__(32 * kMostWarps) void rows_forward(
    A* y, Compute<A>* mean, Compute<A>* rstd, A* x, const A* a, const A* b, const A* gamma0,
    const A* gamma1, const A* beta, NormRows rows, Compute<A> epsilon, int shift) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const Place own(shift);
  const int groups = own.groups(), n = static_cast<int>(rows.n);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * groups + own.group;
  const bool there = row < rows.count;
  const int64_t at = there ? rows.offset(row) : 0;
  Words held[kPacks];
  T sum[1] = {T(0)};
  PLANNER_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    const int i = own.element<A>(p);
    held[p] = {};
    if (!there || i >= n) continue;
    if constexpr (kAdds) {
      T v[kSize], w[kSize];
      widened<A>(raw(a + at + i), v);
      widened<A>(raw(b + at + i), w);
      PLANNER_UNROLL
      for (int j = 0; j < kSize; ++j) v[j] += w[j];
      held[p] = narrowed_all<A>(v);
    } else {
      held[p] = raw(static_cast<const A*>(x) + at + i);
    }
  }
  PLANNER_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    const int i = own.element<A>(p);
    if (!there || i >= n) continue;
    if constexpr (kAdds) put(x + at + i, held[p]);
    // The norm is of the sum as it is stored.
    T v[kSize];
    widened<A>(held[p], v);
    PLANNER_UNROLL
    for (int j = 0; j < kSize; ++j) sum[0] += v[j];
  }
  if constexpr (kCentred) over_row(sum, shift);
  const T centre = kCentred ? sum[0] / static_cast<T>(n) : T(0);
  T squares[1] = {T(0)};
  PLANNER_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    if (own.element<A>(p) >= n) continue;
    T v[kSize];
    widened<A>(held[p], v);
    PLANNER_UNROLL
    for (int j = 0; j < kSize; ++j) squares[0] += (v[j] - centre) * (v[j] - centre);
  }
  over_row(squares, shift);
  if (!there) return;
  const T scale = T(1) / root_of(squares[0] / static_cast<T>(n) + epsilon);
  if (own.thread == 0) {
    if (kCentred) mean[row] = centre;
    rstd[row] = scale;
  }
  const A* const gamma = rows.which(row) == 0 ? gamma0 : gamma1;
  PLANNER_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    const int i = own.element<A>(p);
    if (i >= n) continue;
    T v[kSize], g[kSize];
    widened<A>(held[p], v);
    load_gamma(gamma, i, rows, g);
    PLANNER_UNROLL
    for (int j = 0; j < kSize; ++j) v[j] = (v[j] - centre) * scale * g[j];
    if (kCentred && beta != nullptr) {
      widened<A>(raw(beta + i), g);
      PLANNER_UNROLL
      for (int j = 0; j < kSize; ++j) v[j] += g[j];
    }
    put(y + at + i, narrowed_all<A>(v));
  }
}

// Adds the block's sums over its rows: those of the row groups, in order, in shared memory, then
// to partial[block][sum][column].
template <class A, int kSums>
PLANNER_DEVICE void store_strip(const Compute<A> (&sums)[kSums][kGradientPacks][Pack<A>::kSize],
                                Compute<A>* partial, Compute<A>* shared, const Place& own,
                                int n, int groups) {
  constexpr int kSize = Pack<A>::kSize;
  for (int g = 0; g < groups; ++g) {
    if (own.group == g) {
      PLANNER_UNROLL
      for (int s = 0; s < kSums; ++s)
        PLANNER_UNROLL
        for (int p = 0; p < kGradientPacks; ++p) {
          const int i = own.element<A>(p);
          if (i >= n) continue;
          PLANNER_UNROLL
          for (int j = 0; j < kSize; ++j) {
            const int at = s * n + i + j;
            const Compute<A> sum = g == 0 ? sums[s][p][j] : shared[at] + sums[s][p][j];
            if (g + 1 == groups) partial[static_cast<int64_t>(blockIdx.x) * kSums * n + at] = sum;
            else shared[at] = sum;
          }
        }
    }
    __syncthreads();
  }
}

// What a thread has of a row, as it was read; zeros where there is none.
template <class A>
struct Held {
  Words dy[kGradientPacks], x[kGradientPacks];
  Compute<A> mean, rstd;
};
template <class A, bool kCentred>
PLANNER_DEVICE void hold(Held<A>& held, const A* dy, const A* x, const Compute<A>* mean,
                         const Compute<A>* rstd, int64_t row, int64_t at, bool there,
                         const Place& own, int n) {
  PLANNER_UNROLL
  for (int p = 0; p < kGradientPacks; ++p) {
    const int i = own.element<A>(p);
    held.dy[p] = {}, held.x[p] = {};
    if (!there || i >= n) continue;
    held.dy[p] = raw(dy + at + i);
    held.x[p] = raw(x + at + i);
  }
  held.mean = kCentred && there ? mean[row] : Compute<A>(0);
  held.rstd = there ? rstd[row] : Compute<A>(0);
}

// dx (=|+=) rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma; without mean(g) unless centred.
// dx may be dy: a thread writes what it alone has read. kSums: into partial, of each column the
// sums over this block's rows of dy xhat, and of dy where there are two. A row is read while the
// one before is computed.
template <class A, bool kCentred, int kSums>
__global__ __launch_bounds__(32 * kMostWarps, 1) void rows_gradient(
    A* dx, const A* dy, const A* x, const A* gamma0, const A* gamma1, const Compute<A>* mean,
    const Compute<A>* rstd, NormRows rows, bool accumulate, Compute<A>* partial, int shift) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize, kKept = kSums > 0 ? kSums : 1;
  PLANNER_SHARED(T, shared);
  const Place own(shift);
  const int groups = own.groups(), n = static_cast<int>(rows.n);
  const int64_t blocks = gridDim.x, each = (rows.count + blocks - 1) / blocks;
  const int64_t first = blockIdx.x * each, last = smaller(first + each, rows.count);
  // Sums are of plain rows, with one gamma.
  const auto place = [&](int64_t row) { return kSums > 0 ? row * n : rows.offset(row); };
  T sums[kKept][kGradientPacks][kSize] = {};
  Held<A> next;
  int64_t row = first + own.group;
  if (first < last)
    hold<A, kCentred>(next, dy, x, mean, rstd, row, row < last ? place(row) : 0, row < last, own,
                      n);
  for (int64_t base = first; base < last; base += groups, row += groups) {
    const bool there = row < last;
    const int64_t at = there ? place(row) : 0;
    const A* const gamma = kSums > 0 || !there || rows.which(row) == 0 ? gamma0 : gamma1;
    Held<A> held = next;
    Words before[kGradientPacks];
    PLANNER_UNROLL
    for (int p = 0; p < kGradientPacks; ++p) {
      const int i = own.element<A>(p);
      before[p] = {};
      if (accumulate && there && i < n) before[p] = raw(static_cast<const A*>(dx) + at + i);
    }
    if (base + groups < last) {
      const int64_t after = row + groups;
      hold<A, kCentred>(next, dy, x, mean, rstd, after, after < last ? place(after) : 0,
                        after < last, own, n);
    }
    const T centre = held.mean, scale = held.rstd;
    T means[2] = {T(0), T(0)};
    PLANNER_UNROLL
    for (int p = 0; p < kGradientPacks; ++p) {
      const int i = own.element<A>(p);
      if (i >= n) continue;
      T g[kSize], d[kSize], v[kSize];
      load_gamma(gamma, i, rows, g);
      widened<A>(held.dy[p], d);
      widened<A>(held.x[p], v);
      PLANNER_UNROLL
      for (int j = 0; j < kSize; ++j) {
        const T hat = (v[j] - centre) * scale;
        means[0] += d[j] * g[j];
        means[1] += d[j] * g[j] * hat;
        if constexpr (kSums > 0) sums[0][p][j] += d[j] * hat;
        if constexpr (kSums > 1) sums[1][p][j] += d[j];
      }
      keep_raw(held.dy[p]), keep_raw(held.x[p]);
    }
    over_row(means, shift);
    const T a = kCentred ? means[0] / static_cast<T>(n) : T(0), b = means[1] / static_cast<T>(n);
    if (!there) continue;
    PLANNER_UNROLL
    for (int p = 0; p < kGradientPacks; ++p) {
      const int i = own.element<A>(p);
      if (i >= n) continue;
      T g[kSize], d[kSize], v[kSize];
      load_gamma(gamma, i, rows, g);
      widened<A>(held.dy[p], d);
      widened<A>(held.x[p], v);
      PLANNER_UNROLL
      for (int j = 0; j < kSize; ++j) {
        const T hat = (v[j] - centre) * scale;
        d[j] = (d[j] * g[j] - a - hat * b) * scale;
      }
      if (accumulate) {
        widened<A>(before[p], v);
        PLANNER_UNROLL
        for (int j = 0; j < kSize; ++j) d[j] += v[j];
      }
      put(dx + at + i, narrowed_all<A>(d));
    }
  }
  if constexpr (kSums > 0) store_strip<A, kSums>(sums, partial, shared, own, n, groups);
}

template <class... V>
bool in_packs(const NormRows& rows, std::int64_t pack, const V&... views) {
  return rows.n % pack == 0 && rows.columns % pack == 0 && (aligned(views.data) && ...);
}

template <class A, bool kCentred, bool kAdds>
void launch_forward(const Queue& q, const char* name, const NormViews& v, const NormRows& rows,
                    double epsilon, const Spread& by) {
  using T = Compute<A>;
  const auto with = [&](auto* kernel) {
    launch(q, name, {blocks_of(rows.count, by.groups())}, by.block(), 0, kernel, typed<A>(v.y),
           typed<T>(v.mean), typed<T>(v.rstd), typed<A>(v.x), typed<A>(v.a), typed<A>(v.b),
           typed<A>(v.gamma0), typed<A>(v.gamma1), typed<A>(v.beta), rows,
           static_cast<T>(epsilon), by.shift);
  };
  if (by.packs == kForwardPacks) with(rows_forward<A, kCentred, kAdds, kForwardPacks>);
  else with(rows_forward<A, kCentred, kAdds, kGradientPacks>);
}

template <class A, bool kCentred, int kSums>
void launch_gradient(const Queue& q, const char* name, const NormGradients& v,
                     const NormRows& rows, bool accumulate, const Spread& by) {
  using T = Compute<A>;
  const int64_t strips =
      std::min(kMostStrips<T>, static_cast<int64_t>(blocks_of(rows.count, by.groups())));
  T* const partial = kSums > 0 ? q.take<T>(strips * kSums * rows.n) : nullptr;
  const std::size_t shared =
      kSums > 0 && by.groups() > 1 ? static_cast<std::size_t>(kSums * rows.n) * sizeof(T) : 0;
  launch(q, name, {static_cast<unsigned>(strips)}, by.block(), shared,
         rows_gradient<A, kCentred, kSums>, typed<A>(v.dx), typed<A>(v.dy), typed<A>(v.x),
         typed<A>(v.gamma0), typed<A>(v.gamma1), typed<T>(v.mean), typed<T>(v.rstd), rows,
         accumulate, partial, by.shift);
  if constexpr (kSums > 0) {
    Targets<kSums> targets{};
    targets.of[0] = real(v.dgamma);
    if constexpr (kSums > 1) targets.of[1] = real(v.dbeta);
    launch(q, "add_strips", {blocks_of(rows.n, 32)}, {32 * kStripWarps}, 0, add_strips<T, kSums>,
           targets, static_cast<const T*>(partial), strips, rows.n);
  }
}

}  // namespace

bool norm_of_rows(const Queue& q, const char* name, const NormViews& v, const NormRows& rows,
                  double epsilon) {
  bool launched = false;
  with_type(one_type(v.y, v.x, v.gamma0, v.gamma1, v.a, v.b, v.beta), [&]<class A>() {
    check_statistics(v.x.type, v.rstd);
    const Spread by = spread<A>(rows.n, kForwardPacks);
    if (by.packs == 0 || rows.count == 0 ||
        !in_packs(rows, Pack<A>::kSize, v.y, v.x, v.gamma0, v.gamma1, v.a, v.b, v.beta))
      return;
    launched = true;
    if (!v.mean) launch_forward<A, false, false>(q, name, v, rows, epsilon, by);
    else if (v.a) launch_forward<A, true, true>(q, name, v, rows, epsilon, by);
    else launch_forward<A, true, false>(q, name, v, rows, epsilon, by);
  });
  return launched;
}

bool norm_gradients_of_rows(const Queue& q, const char* name, const NormGradients& v,
                            const NormRows& rows, bool accumulate) {
  bool launched = false;
  with_type(one_type(v.dx, v.dy, v.x, v.gamma0, v.gamma1), [&]<class A>() {
    check_statistics(v.x.type, v.rstd);
    const Spread by = spread<A>(rows.n, kGradientPacks);
    if (by.packs == 0 || rows.count == 0 ||
        !in_packs(rows, Pack<A>::kSize, v.dx, v.dy, v.x, v.gamma0, v.gamma1))
      return;
    launched = true;
    const bool sums = static_cast<bool>(v.dgamma);
    if (v.mean && sums) launch_gradient<A, true, 2>(q, name, v, rows, accumulate, by);
    else if (v.mean) launch_gradient<A, true, 0>(q, name, v, rows, accumulate, by);
    else if (sums) launch_gradient<A, false, 1>(q, name, v, rows, accumulate, by);
    else launch_gradient<A, false, 0>(q, name, v, rows, accumulate, by);
  });
  return launched;
}

}  // namespace exec::cuda
