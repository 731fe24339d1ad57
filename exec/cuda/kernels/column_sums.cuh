#pragma once
// Sums over rows, for gradients of biases and norms: strips of rows in parallel, each into its own
// partial sums in the workspace, which one thread a column then adds in ascending order to what is
// stored. Deterministic; the number of strips depends on the shape alone.

#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {

inline constexpr int64_t kStripRows = 64;
inline constexpr int64_t kMostStrips = 128;
inline constexpr unsigned kColumnThreads = 128;

inline int64_t strips_of(int64_t rows) {
  const int64_t strips = (rows + kStripRows - 1) / kStripRows;
  return strips < kMostStrips ? strips : kMostStrips;
}

template <int kSums>
struct Targets { Real of[kSums]; };

// partial[strip][sum][column]; a strip's rows are contiguous.
template <class T, int kSums, class Terms>
__global__ void strip_sums(T* partial, int64_t rows, int64_t n, Terms terms) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= n) return;
  const int64_t strips = gridDim.y, each = (rows + strips - 1) / strips;
  const int64_t first = blockIdx.y * each;
  T sums[kSums] = {};
  for (int64_t r = first; r < smaller(first + each, rows); ++r) terms(r, c, sums);
  for (int s = 0; s < kSums; ++s) partial[(blockIdx.y * kSums + s) * n + c] = sums[s];
}

template <class T, int kSums>
__global__ void add_strips(Targets<kSums> targets, const T* partial, int64_t strips, int64_t n) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= n) return;
  for (int s = 0; s < kSums; ++s) {
    T sum = load_real<T>(targets.of[s], c);
    for (int64_t strip = 0; strip < strips; ++strip) sum += partial[(strip * kSums + s) * n + c];
    store_real(targets.of[s], c, sum);
  }
}

// target[s][c] += sum over rows of what terms(row, c, sums) adds to sums[s].
template <class T, int kSums, class Terms>
void add_column_sums(const Queue& q, const char* name, const Targets<kSums>& targets, int64_t rows,
                     int64_t n, const Terms& terms) {
  const int64_t strips = strips_of(rows);
  if (strips == 0 || n == 0) return;
  T* const partial = q.take<T>(strips * kSums * n);
  const Extent grid{blocks_of(n, kColumnThreads), static_cast<unsigned>(strips)};
  launch(q, name, grid, {kColumnThreads}, 0, strip_sums<T, kSums, Terms>, partial, rows, n, terms);
  launch(q, "add_strips", {blocks_of(n, kColumnThreads)}, {kColumnThreads}, 0,
         add_strips<T, kSums>, targets, static_cast<const T*>(partial), strips, n);
}

}  // namespace exec::cuda
