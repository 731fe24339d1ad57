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

// ---- what of a tile is seen, and what its scores become

// The end of the keys that queries before `last` see, and tiles up to it.
template <Form kForm>
PLANNER_DEVICE int keys_before(const HeadsOf<kForm>& s, int last) {
  const int rows = smaller(last, static_cast<int>(s.seq));
  return kForm == Form::plain ? rows : static_cast<int>(s.key_end(rows - 1));
}
template <Form kForm>
PLANNER_DEVICE int tiles_of(const HeadsOf<kForm>& s, int last, int met) {
  return (keys_before<kForm>(s, last) + met - 1) / met;
}

// Scores of rows from `row`, columns from `column`, of which a row sees those up to itself.
template <bool kRowsAreKeys, int kTiles, int kOthers>
PLANNER_DEVICE void hide(float (&s)[kTiles][kOthers][4], int row, int column) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int ahead = column - row + lane % 4 * 2 - lane / 4;
  PLANNER_UNROLL
  for (int m = 0; m < kTiles; ++m)
    PLANNER_UNROLL
    for (int n = 0; n < kOthers; ++n)
      PLANNER_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int past = ahead + 8 * n + i % 2 - 16 * m - i / 2 * 8;
        if (kRowsAreKeys ? past < 0 : past > 0) s[m][n][i] = -INFINITY;
      }
}

// Products of queries and keys become scores that are not scaled yet: capped, with linear biases,
// and no score where a query does not see a key. Rows from `row`, columns from `column`.
template <bool kRowsAreKeys, int kTiles, int kOthers, class H>
PLANNER_DEVICE void mask(float (&s)[kTiles][kOthers][4], int row, int column, const H& h,
                         float slope) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float scale = static_cast<float>(h.scale), cap = static_cast<float>(h.soft_cap);
  // Whether every query of the tile sees every key. That holds if the first query sees the last key
  // and the last query sees the first key.
  const int last_row = row + 16 * kTiles - 1, last = column + 8 * kOthers - 1;
  const bool all = kRowsAreKeys ? h.sees(column, last_row) && h.sees(last, row)
                                : h.sees(row, last) && h.sees(last_row, column);
  PLANNER_UNROLL
  for (int m = 0; m < kTiles; ++m)
    PLANNER_UNROLL
    for (int n = 0; n < kOthers; ++n)
      PLANNER_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int r = row + 16 * m + i / 2 * 8 + lane / 4;
        const int c = column + 8 * n + lane % 4 * 2 + i % 2;
        const int query = kRowsAreKeys ? c : r, key = kRowsAreKeys ? r : c;
        float& x = s[m][n][i];
        if (cap > 0) x = cap * tanh_of(x * scale / cap) / scale;
        if (slope != 0) x += slope * static_cast<float>(h.distance(query, key)) / scale;
        if (!all && !h.sees(query, key)) x = -INFINITY;
      }
}

// The derivative of a capped score by the product it was made of, without the scale; 0 where there
// is no score.
PLANNER_DEVICE float cap_slope(float score, const Heads& h) {
  if (score == -INFINITY) return 0;
  if (h.soft_cap == 0) return 1;
  const float t = score * static_cast<float>(h.scale) / static_cast<float>(h.soft_cap);
  return 1 - t * t;
}

}  // namespace exec::cuda
