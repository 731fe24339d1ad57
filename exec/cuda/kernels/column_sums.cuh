#pragma once
// Sums over rows, for gradients of biases and norms: strips of rows in parallel, each into its own
// partial sums in the workspace, which a second kernel adds to what is stored. Columns are read in
// packs of 16 bytes, rows by the warps of a block in turn. Deterministic: the order depends on the
// shape alone.

#include <algorithm>

#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {

inline constexpr int kStripWarps = 8;  // of a block, in both kernels
inline constexpr int64_t kStripRows = 64;  // of a strip, where there are rows enough

// The most strips: what a workspace of 128 strips in f64 holds (workspace_bytes()).
template <class T>
constexpr int64_t kMostStrips = sizeof(T) == sizeof(double) ? 128 : 256;

// So many that all blocks work at once on an H100: 8 of each of its 132 multiprocessors, or fewer
// of each. On any GPU the same, so that sums have one order.
template <class T>
int64_t strips_of(int64_t rows, int64_t column_blocks) {
  constexpr int64_t kMultiprocessors = 132, kBlocks = 8;
  const int64_t fit = kMostStrips<T> * column_blocks / kMultiprocessors;
  const int64_t of_each = fit < 1 ? 1 : fit < kBlocks ? fit : kBlocks;
  const int64_t strips = of_each * kMultiprocessors / column_blocks;
  const int64_t most = std::min(kMostStrips<T>, (rows + kStripRows - 1) / kStripRows);
  return std::clamp<int64_t>(strips, 1, std::max<int64_t>(most, 1));
}

template <int kSums>
struct Targets { Real of[kSums]; };

// How many lanes of a warp read one row of n columns. If that is not all of them, the warp reads
// several rows at a time.
template <class A>
int lanes_of(int64_t n) {
  int lanes = 32;
  while (lanes > 1 && n <= int64_t{lanes} / 2 * Pack<A>::kSize) lanes /= 2;
  return lanes;
}

// partial[strip][sum][column]; a strip's rows are contiguous. A block has `lanes` packs of columns.
template <class A, int kSums, class Terms>
__global__ void strip_sums(Compute<A>* partial, int64_t rows, int64_t n, int lanes, Terms terms) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize, kColumns = 32 * kSize;
  __shared__ T of_warp[kStripWarps][kSums][kColumns];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int64_t strips = gridDim.y, each = (rows + strips - 1) / strips;
  const int64_t first = blockIdx.y * each, last = smaller(first + each, rows);
  const int groups = 32 / lanes, group = lane / lanes;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns,
                own = column + (lane - group * lanes) * kSize;
  T sums[kSums][kSize] = {};
  if (own < n) {
    PLANNER_UNROLL_BY(4)
    for (int64_t r = first + warp * groups + group; r < last; r += kStripWarps * groups)
      terms(r, own, sums);
  }
  PLANNER_UNROLL
  for (int s = 0; s < kSums; ++s)
    PLANNER_UNROLL
    for (int j = 0; j < kSize; ++j) of_warp[warp][s][lane * kSize + j] = sums[s][j];
  __syncthreads();
  const int columns = lanes * kSize;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += static_cast<int>(blockDim.x)) {
    if (column + i >= n) continue;
    PLANNER_UNROLL
    for (int s = 0; s < kSums; ++s) {
      T sum = T(0);
      for (int w = 0; w < kStripWarps; ++w)
        for (int g = 0; g < groups; ++g) sum += of_warp[w][s][g * columns + i];
      partial[(blockIdx.y * kSums + s) * n + column + i] = sum;
    }
  }
}

// A lane a column; each warp adds every eighth strip, ascending, the first warp then the warps'.
template <class T, int kSums>
__global__ void add_strips(Targets<kSums> targets, const T* partial, int64_t strips, int64_t n) {
  __shared__ T of_warp[kStripWarps][32];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  PLANNER_UNROLL
  for (int s = 0; s < kSums; ++s) {
    if (targets.of[s].data == nullptr) continue;  // on all threads: nobody wants this sum
    T sum = T(0);
    PLANNER_UNROLL_BY(8)
    for (int64_t strip = c < n ? warp : strips; strip < strips; strip += kStripWarps)
      sum += partial[(strip * kSums + s) * n + c];
    __syncthreads();                   // those of the sum before have been read
    of_warp[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= n) continue;
    T all = load_real<T>(targets.of[s], c);
    for (int w = 0; w < kStripWarps; ++w) all += of_warp[w][lane];
    store_real(targets.of[s], c, all);
  }
}

// target[s][c] += sum over rows of what terms(row, first column, sums) adds to sums[s][0 ..], for a
// pack of columns of A; those beyond n are not read.
template <class A, int kSums, class Terms>
void add_column_sums(const Queue& q, const char* name, const Targets<kSums>& targets, int64_t rows,
                     int64_t n, const Terms& terms) {
  using T = Compute<A>;
  if (rows == 0 || n == 0) return;
  const unsigned column_blocks = blocks_of(n, 32 * Pack<A>::kSize);
  const int64_t strips = strips_of<T>(rows, column_blocks);
  T* const partial = q.take<T>(strips * kSums * n);
  constexpr Extent kBlock{32 * kStripWarps};
  launch(q, name, {column_blocks, static_cast<unsigned>(strips)}, kBlock, 0,
         strip_sums<A, kSums, Terms>, partial, rows, n, lanes_of<A>(n), terms);
  launch(q, "add_strips", {blocks_of(n, 32)}, kBlock, 0, add_strips<T, kSums>, targets,
         static_cast<const T*>(partial), strips, n);
}

}  // namespace exec::cuda
