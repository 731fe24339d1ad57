// Embeddings. The gradient of the token table is a sum per token in the order of rows: each block
// owns a few tokens, reads all token ids (they are few bytes) and adds the rows that are its own.
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {
namespace {

constexpr int kThreads = 128;          // of a block; columns of one
constexpr int kTokens = 16;            // whose sums a block keeps in shared memory
constexpr int kLooked = 8;             // rows that a thread looks at, side by side
constexpr int kAhead = 8;              // rows that it reads before it adds the first

template <class A>
__global__ void look_up(A* y, const A* table, const std::int32_t* tokens, int64_t rows, int64_t h,
                        int64_t first, int64_t count) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (h + kSize - 1) / kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const int64_t row = tokens[r] - first;
  const bool wide = h % kSize == 0 && aligned(y) && aligned(table);
  Compute<A> v[kSize] = {};
  if (row >= 0 && row < count) load_pack(table + row * h, i, h, wide, v);
  store_pack(y + r * h, i, h, wide, v);
}

// y[row] = x[row] + table[row % seq]
template <class A>
__global__ void add_repeated(A* y, const A* x, const A* table, int64_t rows, int64_t h,
                             int64_t seq) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (h + kSize - 1) / kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const bool wide = h % kSize == 0 && aligned(y) && aligned(x) && aligned(table);
  Compute<A> v[kSize], w[kSize];
  load_pack(x + r * h, i, h, wide, v);
  load_pack(table + r % seq * h, i, h, wide, w);
  for (int j = 0; j < kSize; ++j) v[j] += w[j];
  store_pack(y + r * h, i, h, wide, v);
}

// Tokens [blockIdx.x kTokens, + kTokens) of the table's, columns [blockIdx.y kThreads, + kThreads).
// Rows are looked at kLooked kThreads at a time: those of these tokens, in order, then added.
template <class A>
__global__ void token_sums(Real dtable, const A* dy, const std::int32_t* tokens, int64_t rows,
                           int64_t h, int64_t first, int64_t count) {
  using T = Compute<A>;
  __shared__ T sums[kTokens][kThreads];
  __shared__ int found[kThreads * kLooked];
  __shared__ unsigned char which[kThreads * kLooked];
  __shared__ int of_warp[kThreads / 32];
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kTokens;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned touched = 0;                // tokens met, by bit; the same on all threads
  for (int t = 0; t < kTokens; ++t) sums[t][threadIdx.x] = T(0);
  for (int64_t base = 0; base < rows; base += kThreads * kLooked) {
    const int own_row = static_cast<int>(threadIdx.x) * kLooked;
    int own[kLooked], before = 0, in_warp = 0, mine = 0;
    PLANNER_UNROLL
    for (int k = 0; k < kLooked; ++k) {
      const int64_t r = base + own_row + k;
      const int64_t t = r < rows ? tokens[r] - first - token : -1;
      own[k] = t >= 0 && t < kTokens && token + t < count ? static_cast<int>(t) : -1;
      const unsigned ballot = __ballot_sync(kAll, own[k] >= 0);
      before += __popc(ballot & ((1U << lane) - 1U));
      in_warp += __popc(ballot);
    }
    __syncthreads();                   // the list before has been used
    if (lane == 0) of_warp[warp] = in_warp;
    __syncthreads();
    int all = 0;
    for (unsigned w = 0; w < kThreads / 32; ++w) {
      if (w < warp) before += of_warp[w];
      all += of_warp[w];
    }
    if (all == 0) continue;            // on all threads
    PLANNER_UNROLL
    for (int k = 0; k < kLooked; ++k) {
      if (own[k] < 0) continue;
      found[before + mine] = own_row + k;
      which[before + mine] = static_cast<unsigned char>(own[k]);
      ++mine;
    }
    __syncthreads();
    for (int k = 0; k < all; k += kAhead) {
      T v[kAhead];
      PLANNER_UNROLL
      for (int j = 0; j < kAhead; ++j)
        v[j] = k + j < all && column < h ? widen(dy[(base + found[k + j]) * h + column]) : T(0);
      PLANNER_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        if (k + j >= all) continue;
        touched |= 1U << which[k + j];
        sums[which[k + j]][threadIdx.x] += v[j];
      }
    }
  }
  if (column >= h) return;
  for (int t = 0; t < kTokens; ++t) {
    if ((touched >> t & 1U) == 0) continue;
    const int64_t at = (token + t) * h + column;
    store_real(dtable, at, load_real<T>(dtable, at) + sums[t][threadIdx.x]);
  }
}

template <class A>
__global__ void position_sums(Real dtable, const A* dy, int64_t rows, int64_t h, int64_t seq) {
  using T = Compute<A>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= smaller(seq, rows) * h) return;
  T sum = load_real<T>(dtable, i);
  for (int64_t at = i; at < rows * h; at += seq * h) sum += widen(dy[at]);
  store_real(dtable, i, sum);
}

const std::int32_t* indices(const View& v) {
  PLANNER_CHECK(v.type == core::DType::i32, "tokens are i32");
  return static_cast<const std::int32_t*>(v.data);
}

}  // namespace

void token_embedding(const Queue& q, View y, View wte, View tokens, int64_t rows, int64_t h,
                     host::TableShard shard) {
  with_type(one_type(y, wte), [&]<class A>() {
    const int64_t packs = (h + Pack<A>::kSize - 1) / Pack<A>::kSize;
    launch(q, "token_embedding", {blocks_of(rows * packs, kThreads)}, {kThreads}, 0, look_up<A>,
           typed<A>(y), typed<A>(wte), indices(tokens), rows, h, shard.first_row, shard.rows);
  });
}
void token_embedding_weight_gradient(const Queue& q, View dwte, View dy, View tokens, int64_t rows,
                                     int64_t h, host::TableShard shard) {
  with_type(dy.type, [&]<class A>() {
    const Extent grid{blocks_of(shard.rows, kTokens), blocks_of(h, kThreads)};
    launch(q, "token_embedding_weight_gradient", grid, {kThreads}, 0, token_sums<A>, real(dwte),
           typed<A>(dy), indices(tokens), rows, h, shard.first_row, shard.rows);
  });
}
void position_embedding(const Queue& q, View y, View x, View wpe, int64_t rows, int64_t h,
                        int64_t seq) {
  with_type(one_type(y, x, wpe), [&]<class A>() {
    const int64_t packs = (h + Pack<A>::kSize - 1) / Pack<A>::kSize;
    launch(q, "position_embedding", {blocks_of(rows * packs, kThreads)}, {kThreads}, 0,
           add_repeated<A>, typed<A>(y), typed<A>(x), typed<A>(wpe), rows, h, seq);
  });
}
void position_embedding_weight_gradient(const Queue& q, View dwpe, View dy, int64_t rows,
                                        int64_t h, int64_t seq) {
  with_type(dy.type, [&]<class A>() {
    launch(q, "position_embedding_weight_gradient", {blocks_of(seq * h, kThreads)}, {kThreads}, 0,
           position_sums<A>, real(dwpe), typed<A>(dy), rows, h, seq);
  });
}
// A row of the table is the bias: repeated every row.
void bias_add(const Queue& q, View y, View x, View b, int64_t rows, int64_t n) {
  position_embedding(q, y, x, b, rows, n, 1);
}

}  // namespace exec::cuda
