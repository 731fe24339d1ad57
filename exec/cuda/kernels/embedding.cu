// Embeddings. For the gradient of the token table, rows are put in the order of their tokens, and
// added up in pieces of that order: a token of many rows would keep one block busy for long. What
// of a piece belongs to a token that other pieces have too is added last.
#include <algorithm>

#include "exec/cuda/kernels/integers.cuh"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {
namespace {

constexpr int kThreads = 128;          // of a block
constexpr int kTokens = 64;            // whose rows a block finds
constexpr int kLooked = 8;             // rows that a thread looks at, side by side

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

// y[row] = x[row] + table[position of row % seq], each row the first h of ld elements.
template <class A>
__global__ void add_repeated(A* y, const A* x, const A* table, int64_t rows, int64_t h, int64_t ld,
                             int64_t seq, Positions at_rows) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (h + kSize - 1) / kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const bool wide = h % kSize == 0 && ld % kSize == 0 && aligned(y) && aligned(x) && aligned(table);
  Compute<A> v[kSize], w[kSize];
  load_pack(x + r * ld, i, h, wide, v);
  load_pack(table + at_rows.of(r % seq) * h, i, h, wide, w);
  for (int j = 0; j < kSize; ++j) v[j] += w[j];
  store_pack(y + r * ld, i, h, wide, v);
}

// y[row] = x[row] + table[type of the row]. A sample has `each` types, of which those of its rows
// begin at `first`.
struct TypedRows { int64_t rows, of_sample, each, first, h; };
template <class A>
__global__ void add_types(A* y, const A* x, const A* table, const std::int32_t* types,
                          TypedRows s) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (s.h + kSize - 1) / kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= s.rows * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const int64_t type = types[r / s.of_sample * s.each + s.first + r % s.of_sample];
  const bool wide = s.h % kSize == 0 && aligned(y) && aligned(x) && aligned(table);
  Compute<A> v[kSize], w[kSize];
  load_pack(x + r * s.h, i, s.h, wide, v);
  load_pack(table + type * s.h, i, s.h, wide, w);
  for (int j = 0; j < kSize; ++j) v[j] += w[j];
  store_pack(y + r * s.h, i, s.h, wide, v);
}

// to = the first of each sample's rows; kBack: to is the gradient of all rows, of which `from` has
// that of the first.
template <class A, bool kBack>
__global__ void first_rows(A* to, const A* from, int64_t samples, int64_t rows, int64_t h,
                           bool accumulate) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (h + kSize - 1) / kSize, count = samples * (kBack ? rows : 1);
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const bool wide = h % kSize == 0 && aligned(to) && aligned(from), first = r % rows == 0;
  Compute<A> v[kSize] = {}, old[kSize];
  if (!kBack) load_pack(from + r * rows * h, i, h, wide, v);
  if (kBack && first) load_pack(from + r / rows * h, i, h, wide, v);
  if (accumulate) {
    load_pack(static_cast<const A*>(to) + r * h, i, h, wide, old);
    for (int j = 0; j < kSize; ++j) v[j] += old[j];
  }
  store_pack(to + r * h, i, h, wide, v);
}

// Rows by token, and each token's ascending: what the kernels of a gradient hand on.
struct Order {
  std::int32_t* rows;                  // in order; those of other ranks' tokens are left out
  std::int32_t* count;                 // how many there are
};

// The rows of tokens [kTokens blockIdx.x, + kTokens), behind those of all tokens before.
__global__ void order_rows(Order order, const std::int32_t* tokens, int64_t rows, int64_t first,
                           int64_t count) {
  __shared__ int places[kTokens];      // the next of each token
  __shared__ int found[kThreads * kLooked];
  __shared__ unsigned char which[kThreads * kLooked];
  __shared__ int of_warp[kThreads / 32];
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kTokens;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const auto own_of = [&](int64_t t) {
    return t >= token && t < token + kTokens && t < count ? static_cast<int>(t - token) : -1;
  };
  if (threadIdx.x < kTokens) places[threadIdx.x] = 0;
  __syncthreads();
  int before = 0;
  for (int64_t r = threadIdx.x; r < rows; r += kThreads) {
    const int64_t t = tokens[r] - first;
    if (t >= 0 && t < token) ++before;
    const int own = own_of(t);
    if (own >= 0) atomicAdd(&places[own], 1);
  }
  before = over_block(before, Plus{});
  if (threadIdx.x == 0) {
    for (int t = 0; t < kTokens; ++t) {
      const int own = places[t];
      places[t] = before;
      before += own;
    }
    if (blockIdx.x + 1 == gridDim.x) *order.count = before;
  }
  __syncthreads();
  for (int64_t base = 0; base < rows; base += kThreads * kLooked) {
    const int own_row = static_cast<int>(threadIdx.x) * kLooked;
    int own[kLooked], at = 0, in_warp = 0;
    PLANNER_UNROLL
    for (int k = 0; k < kLooked; ++k) {
      const int64_t r = base + own_row + k;
      own[k] = r < rows ? own_of(tokens[r] - first) : -1;
      const unsigned ballot = __ballot_sync(kAll, own[k] >= 0);
      at += __popc(ballot & ((1U << lane) - 1U));
      in_warp += __popc(ballot);
    }
    __syncthreads();                   // the list before has been used
    if (lane == 0) of_warp[warp] = in_warp;
    __syncthreads();
    int all = 0;
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < warp) at += of_warp[w];
      all += of_warp[w];
    }
    if (all == 0) continue;            // on all threads
    PLANNER_UNROLL
    for (int k = 0; k < kLooked; ++k) {
      if (own[k] < 0) continue;
      found[at] = own_row + k;
      which[at++] = static_cast<unsigned char>(own[k]);
    }
    __syncthreads();
    if (warp != 0) continue;
    // One warp puts them down, 32 at a time: a lane behind the lanes before it that have its token.
    for (int k = 0; k < all; k += 32) {
      const int mine = k + lane < all ? which[k + lane] : -1;
      int ahead = 0, alike = 0;
      for (int l = 0; l < 32; ++l) {
        const bool same = __shfl_sync(kAll, mine, l) == mine;
        ahead += same && l < lane ? 1 : 0;
        alike += same ? 1 : 0;
      }
      const int place = mine >= 0 ? places[mine] + ahead : 0;
      __syncwarp();
      if (mine >= 0) {
        order.rows[place] = static_cast<std::int32_t>(base) + found[k + lane];
        if (ahead + 1 == alike) places[mine] = place + 1;
      }
      __syncwarp();
    }
  }
}

// Pieces of an order, and what of them is added last.
template <class T>
struct Pieces {
  const std::int32_t* rows;
  const std::int32_t* count;
  const std::int32_t* tokens;
  T* heads;                            // [piece][h]: of the token that the piece before ends with
  T* tails;                            // [piece][h]: of the token that the piece after begins with
  int64_t each;                        // rows of a piece
  PLANNER_DEVICE std::int32_t token(int64_t i) const { return tokens[rows[i]]; }
  PLANNER_DEVICE int64_t begin(int64_t piece) const { return smaller(piece * each, end()); }
  PLANNER_DEVICE int64_t end() const { return *count; }
  // Whether rows i - 1 and i are of one token.
  PLANNER_DEVICE bool joined(int64_t i) const {
    return i > 0 && i < end() && token(i - 1) == token(i);
  }
};

template <class T>
PLANNER_DEVICE void add_row(const Real& dtable, int64_t row, int64_t h, int64_t i, int size,
                            const T* sums) {
  for (int j = 0; j < size; ++j) {
    if (i + j >= h) return;
    const int64_t at = row * h + i + j;
    store_real(dtable, at, load_real<T>(dtable, at) + sums[j]);
  }
}

// Piece blockIdx.x, a pack of columns a thread.
template <class A>
__global__ void add_pieces(Real dtable, const A* dy, Pieces<Compute<A>> pieces, int64_t h,
                           int64_t first) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t i = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kSize;
  const int64_t piece = blockIdx.x, begin = pieces.begin(piece), end = pieces.begin(piece + 1);
  if (i >= h) return;
  const bool wide = h % kSize == 0 && aligned(dy);
  for (int64_t from = begin; from < end;) {
    int64_t to = from + 1;             // behind the last row of this token
    while (to < end && pieces.joined(to)) ++to;
    T sums[kSize] = {};
    PLANNER_UNROLL_BY(4)
    for (int64_t k = from; k < to; ++k) {
      T v[kSize];
      load_pack(dy + pieces.rows[k] * h, i, h, wide, v);
      PLANNER_UNROLL
      for (int j = 0; j < kSize; ++j) sums[j] += v[j];
    }
    T* const apart = from == begin && pieces.joined(begin) ? pieces.heads
                     : to == end && pieces.joined(end)     ? pieces.tails
                                                           : nullptr;
    if (apart == nullptr) {
      add_row(dtable, pieces.token(from) - first, h, i, kSize, sums);
    } else {
      PLANNER_UNROLL
      for (int j = 0; j < kSize; ++j)
        if (i + j < h) apart[piece * h + i + j] = sums[j];
    }
    from = to;
  }
}

// Where a piece ends within the rows of a token that begin in it: that token's sums, in order.
template <class T>
__global__ void join_pieces(Real dtable, Pieces<T> pieces, int64_t h, int64_t first) {
  const int64_t i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  const int64_t piece = blockIdx.x, begin = pieces.begin(piece), end = pieces.begin(piece + 1);
  if (i >= h || begin == end || !pieces.joined(end)) return;
  const std::int32_t token = pieces.token(end - 1);
  if (pieces.joined(begin) && pieces.token(begin) == token) return;  // an earlier piece's
  T sum = pieces.tails[piece * h + i];
  for (int64_t p = piece + 1; pieces.begin(p) < pieces.end(); ++p) {
    if (pieces.token(pieces.begin(p)) != token) break;
    sum += pieces.heads[p * h + i];
  }
  add_row(dtable, token - first, h, i, 1, &sum);
}

template <class A>
__global__ void position_sums(Real dtable, const A* dy, int64_t rows, int64_t h, int64_t seq,
                              Positions at_rows) {
  using T = Compute<A>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= smaller(seq, rows) * h) return;
  const int64_t to = at_rows.of(i / h) * h + i % h;
  T sum = load_real<T>(dtable, to);
  for (int64_t at = i; at < rows * h; at += seq * h) sum += widen(dy[at]);
  store_real(dtable, to, sum);
}

}  // namespace

void token_embedding(const Queue& q, View y, View wte, View tokens, int64_t rows, int64_t h,
                     host::TableShard shard) {
  with_type(one_type(y, wte), [&]<class A>() {
    const int64_t packs = (h + Pack<A>::kSize - 1) / Pack<A>::kSize;
    launch(q, "token_embedding", {blocks_of(rows * packs, kThreads)}, {kThreads}, 0, look_up<A>,
           typed<A>(y), typed<A>(wte), integers(tokens), rows, h, shard.first_row, shard.rows);
  });
}
void token_embedding_weight_gradient(const Queue& q, View dwte, View dy, View tokens, int64_t rows,
                                     int64_t h, host::TableShard shard) {
  if (rows == 0) return;
  with_type(dy.type, [&]<class A>() {
    using T = Compute<A>;
    const int64_t each = std::max(kPieceRows, (rows + kTokenPieces - 1) / kTokenPieces);
    const int64_t count = (rows + each - 1) / each, sums = count * h;
    T* const heads = q.take<T>(2 * sums + (rows + 1) * static_cast<int64_t>(sizeof(int)) /
                                              static_cast<int64_t>(sizeof(T)) + 1);
    auto* const order = reinterpret_cast<std::int32_t*>(heads + 2 * sums);
    launch(q, "order_rows", {blocks_of(shard.rows, kTokens)}, {kThreads}, 0, order_rows,
           Order{order + 1, order}, integers(tokens), rows, shard.first_row, shard.rows);
    const Pieces<T> pieces{order + 1, order, integers(tokens), heads, heads + sums, each};
    const auto blocks = [&](int64_t threads) {
      return Extent{static_cast<unsigned>(count), blocks_of(threads, kThreads)};
    };
    launch(q, "token_embedding_weight_gradient", blocks(blocks_of(h, Pack<A>::kSize)), {kThreads},
           0, add_pieces<A>, real(dwte), typed<A>(dy), pieces, h, shard.first_row);
    launch(q, "join_pieces", blocks(h), {kThreads}, 0, join_pieces<T>, real(dwte), pieces, h,
           shard.first_row);
  });
}
void type_embedding(const Queue& q, View y, View x, View wtt, View types, const TypeRows& s) {
  with_type(one_type(y, x, wtt), [&]<class A>() {
    const int64_t packs = (s.h + Pack<A>::kSize - 1) / Pack<A>::kSize, rows = s.samples * s.rows;
    launch(q, "type_embedding", {blocks_of(rows * packs, kThreads)}, {kThreads}, 0, add_types<A>,
           typed<A>(y), typed<A>(x), typed<A>(wtt), integers(types),
           TypedRows{rows, s.rows, s.types, s.first, s.h});
  });
}
void type_embedding_weight_gradient(const Queue& q, View dwtt, View dy, View types,
                                    const TypeRows& s) {
  const host::TableShard all{0, s.count};
  if (s.types == s.rows)
    return token_embedding_weight_gradient(q, dwtt, dy, types, s.samples * s.rows, s.h, all);
  for (int64_t i = 0; i < s.samples; ++i)
    token_embedding_weight_gradient(q, dwtt, dy.at(i * s.rows * s.h),
                                    types.at(i * s.types + s.first), s.rows, s.h, all);
}
void first_token(const Queue& q, View y, View x, int64_t samples, int64_t rows, int64_t n) {
  with_type(one_type(y, x), [&]<class A>() {
    const int64_t packs = (n + Pack<A>::kSize - 1) / Pack<A>::kSize;
    launch(q, "first_token", {blocks_of(samples * packs, kThreads)}, {kThreads}, 0,
           first_rows<A, false>, typed<A>(y), typed<A>(x), samples, rows, n, false);
  });
}
void first_token_gradient(const Queue& q, View dx, View dy, int64_t samples, int64_t rows,
                          int64_t n, bool accumulate) {
  with_type(one_type(dx, dy), [&]<class A>() {
    const int64_t packs = (n + Pack<A>::kSize - 1) / Pack<A>::kSize;
    launch(q, "first_token_gradient", {blocks_of(samples * rows * packs, kThreads)}, {kThreads}, 0,
           first_rows<A, true>, typed<A>(dx), typed<A>(dy), samples, rows, n, accumulate);
  });
}
static void add_rows_of(const Queue& q, View y, View x, View table, int64_t rows, int64_t h,
                        int64_t ld, int64_t seq, const host::Places& places) {
  with_type(one_type(y, x, table), [&]<class A>() {
    const int64_t packs = (h + Pack<A>::kSize - 1) / Pack<A>::kSize;
    launch(q, "position_embedding", {blocks_of(rows * packs, kThreads)}, {kThreads}, 0,
           add_repeated<A>, typed<A>(y), typed<A>(x), typed<A>(table), rows, h, ld, seq,
           positions(places));
  });
}
void position_embedding(const Queue& q, View y, View x, View wpe, int64_t rows, int64_t h,
                        int64_t seq, const host::Places& places) {
  add_rows_of(q, y, x, wpe, rows, h, h, seq, places);
}
void position_embedding_weight_gradient(const Queue& q, View dwpe, View dy, int64_t rows,
                                        int64_t h, int64_t seq, const host::Places& places) {
  with_type(dy.type, [&]<class A>() {
    launch(q, "position_embedding_weight_gradient", {blocks_of(seq * h, kThreads)}, {kThreads}, 0,
           position_sums<A>, real(dwpe), typed<A>(dy), rows, h, seq, positions(places));
  });
}
// A row of the table is the bias: repeated every row.
void bias_add(const Queue& q, View y, View x, View b, int64_t rows, int64_t n, int64_t ld) {
  add_rows_of(q, y, x, b, rows, n, ld > 0 ? ld : n, 1, {1, 0, 0});
}

}  // namespace exec::cuda
