#pragma once
// Kernels that give each warp of a block a row of its own, or each thread a pack of a row.

#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {

constexpr unsigned kRowsOfBlock = 4;
constexpr unsigned kRowThreads = 32 * kRowsOfBlock;

constexpr int kThreads = 256;          // of a block, where a thread has a pack

// Blocks of kernels whose threads have one pack each of rows of n elements.
template <class A>
unsigned pack_blocks(int64_t rows, int64_t n) {
  return blocks_of(rows * blocks_of(n, Pack<A>::kSize), kThreads);
}

// The row of this warp, or -1.
PLANNER_DEVICE int64_t own_row(int64_t count) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / 32;
  return row < count ? row : -1;
}

// each(first element) for the packs of n elements that this lane has.
template <class A, class Each>
PLANNER_DEVICE void for_packs(int64_t n, Each each) {
  constexpr int kSize = Pack<A>::kSize;
  for (int64_t i = threadIdx.x % 32 * kSize; i < n; i += 32 * kSize) each(i);
}

}  // namespace exec::cuda
