// What decoders have had since Llama: gates of rows, and latent attention's join. Bound by memory:
// rows are read in packs of 16 bytes where their parts begin and end at multiples of one.
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/warp_rows.cuh"

namespace exec::cuda {
namespace {

template <class A>
PLANNER_DEVICE Compute<A> opened(const A* gate, int64_t row, bool open) {
  const Compute<A> g = widen(gate[row]);
  return open ? g : logistic(g);
}

template <class A>
__global__ void gate_rows(A* y, const A* x, const A* gate, host::RowGates s) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (s.n + kSize - 1) / kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= s.rows * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const bool wide = s.n % kSize == 0 && aligned(y) && aligned(x);
  const Compute<A> by = opened(gate, r, s.open);
  Compute<A> v[kSize];
  load_pack(x + r * s.n, i, s.n, wide, v);
  for (int j = 0; j < kSize; ++j) v[j] *= by;
  store_pack(y + r * s.n, i, s.n, wide, v);
}

// dx (=|+=) gate dy, dgate (=|+=) gate' (dy . x). One warp a row.
template <class A>
__global__ void gate_rows_gradient(A* dx, A* dgate, const A* dy, const A* x, const A* gate,
                                   host::RowGates s, bool accumulate) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t r = own_row(s.rows);
  if (r < 0) return;
  const bool wide = s.n % kSize == 0 && aligned(dx) && aligned(dy) && aligned(x);
  const T by = opened(gate, r, s.open);
  T dot = T(0);
  for_packs<A>(s.n, [&](int64_t i) {
    T d[kSize], v[kSize];
    load_pack(dy + r * s.n, i, s.n, wide, d);
    load_pack(x + r * s.n, i, s.n, wide, v);
    for (int j = 0; j < kSize; ++j) {
      dot += d[j] * v[j];
      d[j] *= by;
    }
    if (accumulate) {
      load_pack(static_cast<const A*>(dx) + r * s.n, i, s.n, wide, v);
      for (int j = 0; j < kSize; ++j) d[j] += v[j];
    }
    store_pack(dx + r * s.n, i, s.n, wide, d);
  });
  dot = over_warp(dot, Plus{});
  if (threadIdx.x % 32 != 0) return;
  const T slope = s.open ? dot : dot * by * (T(1) - by);
  narrow(accumulate ? widen(dgate[r]) + slope : slope, dgate[r]);
}

// width columns of rows: to (=|+=) from, each with a row length of its own.
template <class A>
__global__ void move_columns(A* to, int64_t to_ld, const A* from, int64_t from_ld, int64_t rows,
                             int64_t width, bool accumulate) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (width + kSize - 1) / kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const bool wide = to_ld % kSize == 0 && from_ld % kSize == 0 && aligned(to) && aligned(from);
  Compute<A> v[kSize], old[kSize];
  load_pack(from + r * from_ld, i, width, wide, v);
  if (accumulate) {
    load_pack(static_cast<const A*>(to) + r * to_ld, i, width, wide, old);
    for (int j = 0; j < kSize; ++j) v[j] += old[j];
  }
  store_pack(to + r * to_ld, i, width, wide, v);
}

// ---- latent attention's join: where each element of a row of qkv comes from

struct Join {
  int64_t rows, heads, d, rotated, plain, values;
  Join(const host::HeadShape& s, int64_t turned)
      : rows(s.rows), heads(s.heads), d(s.head_dim), rotated(turned), plain(s.head_dim - turned),
        values(s.values()) {
    PLANNER_CHECK(s.heads == s.kv_heads, "latent attention has as many key heads as query heads");
  }
  PLANNER_EVERYWHERE int64_t columns() const { return heads * (2 * d + values); }
  PLANNER_EVERYWHERE int64_t kv_columns() const { return heads * (plain + values); }
  // Whether every part begins and ends at a multiple of so many elements.
  PLANNER_EVERYWHERE bool in_packs(int64_t size) const {
    return d % size == 0 && rotated % size == 0 && values % size == 0;
  }
};

// A column of a row of heads: its head, and its place there. A kernel makes several of each pack of
// columns, so they are of 32 bits: a GPU divides those five times as fast.
struct InRow {
  int head, at;
  PLANNER_DEVICE InRow(int64_t c, int64_t width)
      : head(static_cast<int>(c) / static_cast<int>(width)),
        at(static_cast<int>(c) - head * static_cast<int>(width)) {}
};

// Element c of row r of qkv.
template <class A>
PLANNER_DEVICE const A* joined_from(const A* q, const A* kv, const A* k_rope, const Join& s,
                                    int64_t r, int64_t c) {
  if (c < s.heads * s.d) return q + r * s.heads * s.d + c;
  c -= s.heads * s.d;
  if (c < s.heads * s.d) {
    const auto [h, i] = InRow(c, s.d);
    if (i < s.rotated) return k_rope + r * s.rotated + i;
    return kv + (r * s.heads + h) * (s.plain + s.values) + i - s.rotated;
  }
  const auto [h, i] = InRow(c - s.heads * s.d, s.values);
  return kv + (r * s.heads + h) * (s.plain + s.values) + s.plain + i;
}

// A warp a row.
template <class A>
__global__ void join_heads(A* qkv, const A* q, const A* kv, const A* k_rope, Join s) {
  constexpr int kSize = Pack<A>::kSize;
  const bool wide = s.in_packs(kSize) && aligned(qkv) && aligned(q) && aligned(kv) &&
                    aligned(k_rope);
  const int64_t columns = s.columns(), r = own_row(s.rows);
  if (r < 0) return;
  A* const to = qkv + r * columns;
  for_packs<A>(columns, [&](int64_t c) {
    if (wide)
      *reinterpret_cast<Pack<A>*>(to + c) =
          *reinterpret_cast<const Pack<A>*>(joined_from(q, kv, k_rope, s, r, c));
    else
      for (int j = 0; j < kSize && c + j < columns; ++j)
        to[c + j] = *joined_from(q, kv, k_rope, s, r, c + j);
  });
}

// Where element c of a row of (dq, dkv) lies in a row of dqkv.
PLANNER_DEVICE int64_t split_column(const Join& s, int64_t c) {
  if (c < s.heads * s.d) return c;
  const auto [h, i] = InRow(c - s.heads * s.d, s.plain + s.values);
  if (i < s.plain) return (s.heads + h) * s.d + s.rotated + i;
  return 2 * s.heads * s.d + h * s.values + i - s.plain;
}

// A warp a row: packs of dq, then of dkv, then of dk_rope, which is a sum over heads.
template <class A>
__global__ void join_gradient(A* dq, A* dkv, A* dk_rope, const A* dqkv, Join s) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const bool wide = s.in_packs(kSize) && aligned(dqkv) && aligned(dq) && aligned(dkv) &&
                    aligned(dk_rope);
  const int size = wide ? kSize : 1;   // a lane has an element where parts lie at no such multiples
  const int64_t queries = s.heads * s.d, copied = queries + s.kv_columns(), r = own_row(s.rows);
  if (r < 0) return;
  const A* const row = dqkv + r * s.columns();
  for (int64_t c = threadIdx.x % 32 * size; c < copied + s.rotated; c += 32 * size) {
    if (c >= copied) {
      T sum[kSize] = {};
      for (int64_t h = 0; h < s.heads; ++h) {
        T v[kSize];
        load_pack(row + (s.heads + h) * s.d, c - copied, c - copied + size, wide, v);
        for (int j = 0; j < kSize; ++j) sum[j] += v[j];
      }
      store_pack(dk_rope + r * s.rotated, c - copied, c - copied + size, wide, sum);
      continue;
    }
    A* const to = c < queries ? dq + r * queries + c : dkv + r * s.kv_columns() + c - queries;
    const A* const from = row + split_column(s, c);
    if (wide) *reinterpret_cast<Pack<A>*>(to) = *reinterpret_cast<const Pack<A>*>(from);
    else *to = *from;
  }
}

}  // namespace

void row_gate(const Queue& q, View y, View x, View gate, const host::RowGates& s) {
  with_type(one_type(y, x, gate), [&]<class A>() {
    launch(q, "row_gate", {pack_blocks<A>(s.rows, s.n)}, {kThreads}, 0, gate_rows<A>, typed<A>(y),
           typed<A>(x), typed<A>(gate), s);
  });
}
void row_gate_gradient(const Queue& q, View dx, View dgate, View dy, View x, View gate,
                       const host::RowGates& s, bool accumulate) {
  with_type(one_type(dx, dgate, dy, x, gate), [&]<class A>() {
    launch(q, "row_gate_gradient", {blocks_of(s.rows, kRowsOfBlock)}, {kRowThreads}, 0,
           gate_rows_gradient<A>, typed<A>(dx), typed<A>(dgate), typed<A>(dy), typed<A>(x),
           typed<A>(gate), s, accumulate);
  });
}

void put_columns(const Queue& q, View wide, View narrow, const host::ColumnBlock& b,
                 bool accumulate) {
  with_type(one_type(wide, narrow), [&]<class A>() {
    launch(q, "put_columns", {pack_blocks<A>(b.rows, b.width)}, {kThreads}, 0, move_columns<A>,
           typed<A>(wide.at(b.first)), b.columns, typed<A>(narrow), b.width, b.rows, b.width,
           accumulate);
  });
}
void take_columns(const Queue& q, View narrow, View wide, const host::ColumnBlock& b,
                  bool accumulate) {
  with_type(one_type(narrow, wide), [&]<class A>() {
    launch(q, "take_columns", {pack_blocks<A>(b.rows, b.width)}, {kThreads}, 0, move_columns<A>,
           typed<A>(narrow), b.width, typed<A>(wide.at(b.first)), b.columns, b.rows, b.width,
           accumulate);
  });
}

void latent_join(const Queue& q, View qkv, View queries, View kv, View k_rope,
                 const host::HeadShape& shape, int64_t rotated) {
  const Join s(shape, rotated);
  with_type(one_type(qkv, queries, kv, k_rope), [&]<class A>() {
    launch(q, "latent_join", {blocks_of(s.rows, kRowsOfBlock)}, {kRowThreads}, 0, join_heads<A>,
           typed<A>(qkv), typed<A>(queries), typed<A>(kv), typed<A>(k_rope), s);
  });
}
void latent_join_gradient(const Queue& q, View dq, View dkv, View dk_rope, View dqkv,
                          const host::HeadShape& shape, int64_t rotated) {
  const Join s(shape, rotated);
  with_type(one_type(dq, dkv, dk_rope, dqkv), [&]<class A>() {
    launch(q, "latent_join_gradient", {blocks_of(s.rows, kRowsOfBlock)}, {kRowThreads}, 0,
           join_gradient<A>, typed<A>(dq), typed<A>(dkv), typed<A>(dk_rope), typed<A>(dqkv), s);
  });
}

}  // namespace exec::cuda
