#pragma once
// Tiles of 16-bit rows in shared memory and what a warp computes with them: rows arrive by copies
// that run beside the arithmetic; each warp owns kTiles x 16 rows of a left operand and meets all
// rows of a tile.

#include "exec/cuda/kernels/attention.cuh"
#include "exec/cuda/kernels/tensor_core.cuh"

namespace exec::cuda {

constexpr int kTensorWarps = 4;
constexpr int kTensorThreads = 32 * kTensorWarps;

// Rows of a head of up to kHead elements; shorter ones end in zeros. A row takes an odd number of
// 16 bytes: any eight rows at one column then lie in different banks, and every offset is a
// constant, which an exclusive-or of addresses would not leave.
template <class A, int kHead>
struct Rows {
  static constexpr int kSteps = kHead / 16;
  static constexpr int kChunks = kHead / 8;
  static constexpr int kLd = 8 * (kChunks % 2 == 0 ? kChunks + 1 : kChunks);

  // Rows [first, first + kCount) of a matrix; zeros beyond `end`.
  template <int kCount>
  static PLANNER_DEVICE void fetch(A* to, const A* from, int64_t row_ld, int first, int end,
                                   int d) {
    const A* const rows = from + first * row_ld;
    const int ld = static_cast<int>(row_ld);
    PLANNER_UNROLL_BY(kHead <= 64 ? 2 : 1)
    for (int i = static_cast<int>(threadIdx.x); i < kCount * kChunks; i += kTensorThreads) {
      const int r = i / kChunks, c = i % kChunks * 8;
      const bool real = first + r < end && c < d;
      copy_async<16>(to + r * kLd + c, real ? rows + (r * ld + c) : from, real);
    }
  }

  // Where this lane points a load of 16 x 16 elements: as a left operand, or as the right operand
  // whose rows are summed over; and as the right operand whose columns are.
  static PLANNER_DEVICE int lane_by_rows() {
    const int lane = static_cast<int>(threadIdx.x % 32);
    return lane % 16 * kLd + lane / 16 * 8;
  }
  static PLANNER_DEVICE int lane_by_columns() {
    const int lane = static_cast<int>(threadIdx.x % 32);
    return (lane % 8 + lane / 16 * 8) * kLd + lane / 8 % 2 * 8;
  }

  // Own rows, kept in registers.
  template <int kTiles>
  struct Held {
    Word words[kTiles][kSteps][4];
    PLANNER_DEVICE explicit Held(const A* own) {
      const A* const at = own + lane_by_rows();
      for (int m = 0; m < kTiles; ++m)
        for (int s = 0; s < kSteps; ++s)
          load_matrices(words[m][s], at + 16 * m * kLd + 16 * s);
    }
    PLANNER_DEVICE void load(Word (&r)[4], int m, int s) const {
      for (int i = 0; i < 4; ++i) r[i] = words[m][s][i];
    }
  };
  // Own rows, read from shared memory at each use.
  struct Read {
    const A* at;
    PLANNER_DEVICE explicit Read(const A* own) : at(own + lane_by_rows()) {}
    PLANNER_DEVICE void load(Word (&r)[4], int m, int s) const {
      load_matrices(r, at + 16 * m * kLd + 16 * s);
    }
  };

  // acc = own rows^T: of each own row with each of 8 kOthers rows, over the head.
  template <int kTiles, int kOthers, class Own>
  static PLANNER_DEVICE void multiply(float (&acc)[kTiles][kOthers][4], const Own& own,
                                      const A* rows) {
    const A* const at = rows + lane_by_columns();
    PLANNER_UNROLL
    for (int m = 0; m < kTiles; ++m)
      PLANNER_UNROLL
      for (int n = 0; n < kOthers; ++n)
        for (float& x : acc[m][n]) x = 0;
    PLANNER_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      Word left[kTiles][4];
      PLANNER_UNROLL
      for (int m = 0; m < kTiles; ++m) own.load(left[m], m, s);
      PLANNER_UNROLL
      for (int n = 0; n < kOthers; n += 2) {
        Word right[4];
        load_matrices(right, at + 8 * n * kLd + 16 * s);
        PLANNER_UNROLL
        for (int m = 0; m < kTiles; ++m) {
          multiply_add<A>(acc[m][n], left[m], right[0], right[1]);
          multiply_add<A>(acc[m][n + 1], left[m], right[2], right[3]);
        }
      }
    }
  }

  // acc += weights rows, the weights rounded to A: over 8 kOthers rows, for each column.
  template <int kTiles, int kOthers>
  static PLANNER_DEVICE void add_weighted(float (&acc)[kTiles][kHead / 8][4],
                                          const float (&weights)[kTiles][kOthers][4],
                                          const A* rows) {
    const A* const at = rows + lane_by_rows();
    PLANNER_UNROLL
    for (int k = 0; k < kOthers; k += 2) {
      Word left[kTiles][4];
      PLANNER_UNROLL
      for (int m = 0; m < kTiles; ++m)
        PLANNER_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float(&w)[4] = weights[m][k + i / 2];
          left[m][i] = pair_of<A>(w[i % 2 * 2], w[i % 2 * 2 + 1]);
        }
      PLANNER_UNROLL
      for (int n = 0; n < kHead / 8; n += 2) {
        Word right[4];
        load_matrices_transposed(right, at + 8 * k * kLd + 8 * n);
        PLANNER_UNROLL
        for (int m = 0; m < kTiles; ++m) {
          multiply_add<A>(acc[m][n], left[m], right[0], right[1]);
          multiply_add<A>(acc[m][n + 1], left[m], right[2], right[3]);
        }
      }
    }
  }

  // Own rows acc factor[row] to global memory, by way of `own` in shared memory, so that a lane
  // writes 16 bytes. Nobody else uses `own`.
  template <int kTiles>
  static PLANNER_DEVICE void store(A* to, int64_t row_ld, int first, int end, int d,
                                   const float (&acc)[kTiles][kHead / 8][4],
                                   const float (&factor)[kTiles][2], A* own) {
    const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    __syncwarp();                      // other lanes may have read these rows just now (Read)
    PLANNER_UNROLL
    for (int m = 0; m < kTiles; ++m)
      PLANNER_UNROLL
      for (int n = 0; n < kHead / 8; ++n)
        PLANNER_UNROLL
        for (int h = 0; h < 2; ++h) {
          const float f = factor[m][h];
          *reinterpret_cast<Word*>(own + (16 * m + 8 * h + g) * kLd + 8 * n + 2 * t) =
              pair_of<A>(acc[m][n][2 * h] * f, acc[m][n][2 * h + 1] * f);
        }
    __syncwarp();
    for (int i = lane; i < 16 * kTiles * kChunks; i += 32) {
      const int r = i / kChunks, c = i % kChunks * 8;
      if (first + r < end && c < d)
        *reinterpret_cast<Pack<A>*>(to + (first + r) * row_ld + c) =
            *reinterpret_cast<const Pack<A>*>(own + r * kLd + c);
    }
  }
};

// Over the four lanes that share the rows of a result.
template <class Op>
PLANNER_DEVICE float over_quad(float x, Op op) {
  x = op(x, __shfl_xor_sync(kAll, x, 1));
  return op(x, __shfl_xor_sync(kAll, x, 2));
}

}  // namespace exec::cuda
