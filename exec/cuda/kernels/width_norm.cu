// Norms of queries and keys over the width of all heads [olmo2], a warp a row. Tensor ranks add up
// their sums of squares between the two operators.
#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/warp_rows.cuh"

namespace exec::cuda {
namespace {

struct Widths {
  int64_t rows, columns, queries, keys;  // of a row: all, those of q, those of k
  double epsilon, parts;
  explicit Widths(const host::HeadShape& s, const host::WidthNorm& norm = {})
      : rows(s.rows), columns(s.columns()), queries(s.heads * s.head_dim),
        keys(s.kv_heads * s.head_dim), epsilon(norm.epsilon), parts(norm.parts) {}
  template <class T>
  PLANNER_DEVICE T whole(int of_keys) const {
    return static_cast<T>(of_keys != 0 ? keys : queries) * static_cast<T>(parts);
  }
  template <class T>
  PLANNER_DEVICE T rstd(const T* sums, int64_t row, int of_keys) const {
    return T(1) / root_of(sums[2 * row + of_keys] / whole<T>(of_keys) + static_cast<T>(epsilon));
  }
  PLANNER_EVERYWHERE bool in_packs(int64_t size) const {
    return columns % size == 0 && queries % size == 0 && keys % size == 0;
  }
};

template <class A>
__global__ void width_squares(Compute<A>* sums, const A* qkv, Widths s) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t r = own_row(s.rows);
  if (r < 0) return;
  const bool wide = s.in_packs(kSize) && aligned(qkv);
  for (int keys = 0; keys < 2; ++keys) {
    const A* const x = qkv + r * s.columns + (keys != 0 ? s.queries : 0);
    const int64_t n = keys != 0 ? s.keys : s.queries;
    T sum = T(0);
    for_packs<A>(n, [&](int64_t i) {
      T v[kSize];
      load_pack(x, i, n, wide, v);
      for (int j = 0; j < kSize; ++j) sum += v[j] * v[j];
    });
    sum = over_warp(sum, Plus{});
    if (threadIdx.x % 32 == 0) sums[2 * r + keys] = sum;
  }
}

// to[i] = body(x[i], beside[i]) for n columns of a row; each lane of the warp computes some.
template <class A, class Body>
PLANNER_DEVICE void map_columns(A* to, const A* x, const A* beside, int64_t n, bool wide,
                                Body body) {
  constexpr int kSize = Pack<A>::kSize;
  for_packs<A>(n, [&](int64_t i) {
    Compute<A> v[kSize], w[kSize];
    load_pack(x, i, n, wide, v);
    load_pack(beside, i, n, wide, w);
    for (int j = 0; j < kSize; ++j) v[j] = body(v[j], w[j]);
    store_pack(to, i, n, wide, v);
  });
}

// dqkv (=|+=) 2 dsums x of q and k; of v 0, or nothing.
template <class A>
__global__ void width_squares_gradient(A* dqkv, const Compute<A>* dsums, const A* qkv, Widths s,
                                       bool accumulate) {
  using T = Compute<A>;
  const int64_t r = own_row(s.rows);
  if (r < 0) return;
  const bool wide = s.in_packs(Pack<A>::kSize) && aligned(dqkv) && aligned(qkv);
  A* const to = dqkv + r * s.columns;
  const A* const x = qkv + r * s.columns;
  for (int keys = 0; keys < 2; ++keys) {
    const int64_t first = keys != 0 ? s.queries : 0, n = keys != 0 ? s.keys : s.queries;
    const T d = T(2) * dsums[2 * r + keys];
    if (accumulate)
      map_columns(to + first, x + first, static_cast<const A*>(to) + first, n, wide,
                  [d](T v, T old) { return old + d * v; });
    else
      map_columns(to + first, x + first, x + first, n, wide, [d](T v, T) { return d * v; });
  }
  if (accumulate) return;
  const int64_t first = s.queries + s.keys;
  map_columns(to + first, x + first, x + first, s.columns - first, wide,
              [](T, T) { return T(0); });
}

template <class A>
__global__ void norm_widths(A* y, const A* qkv, const Compute<A>* sums, const A* q_gamma,
                            const A* k_gamma, Widths s) {
  using T = Compute<A>;
  const int64_t r = own_row(s.rows);
  if (r < 0) return;
  const bool wide = s.in_packs(Pack<A>::kSize) && aligned(y) && aligned(qkv) &&
                    aligned(q_gamma) && aligned(k_gamma);
  A* const to = y + r * s.columns;
  const A* const x = qkv + r * s.columns;
  for (int keys = 0; keys < 2; ++keys) {
    const int64_t first = keys != 0 ? s.queries : 0, n = keys != 0 ? s.keys : s.queries;
    const T rstd = s.template rstd<T>(sums, r, keys);
    map_columns(to + first, x + first, keys != 0 ? k_gamma : q_gamma, n, wide,
                [rstd](T v, T g) { return v * rstd * g; });
  }
  const int64_t first = s.queries + s.keys;
  map_columns(to + first, x + first, x + first, s.columns - first, wide, [](T v, T) { return v; });
}

// dqkv = dy rstd gamma, dv = dy; dsums = -rstd^3 / (2 n) sum of dy gamma x over the columns here.
template <class A>
__global__ void norm_widths_gradient(A* dqkv, Compute<A>* dsums, const A* dy, const A* qkv,
                                     const Compute<A>* sums, const A* q_gamma, const A* k_gamma,
                                     Widths s) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t r = own_row(s.rows);
  if (r < 0) return;
  const bool wide = s.in_packs(kSize) && aligned(dqkv) && aligned(dy) && aligned(qkv) &&
                    aligned(q_gamma) && aligned(k_gamma);
  A* const to = dqkv + r * s.columns;
  const A* const d = dy + r * s.columns;
  for (int keys = 0; keys < 2; ++keys) {
    const int64_t first = keys != 0 ? s.queries : 0, n = keys != 0 ? s.keys : s.queries;
    const A* const gamma = keys != 0 ? k_gamma : q_gamma;
    const A* const x = qkv + r * s.columns + first;
    const T rstd = s.template rstd<T>(sums, r, keys);
    T dot = T(0);
    for_packs<A>(n, [&](int64_t i) {
      T a[kSize], g[kSize], v[kSize];
      load_pack(d + first, i, n, wide, a);
      load_pack(gamma, i, n, wide, g);
      load_pack(x, i, n, wide, v);
      for (int j = 0; j < kSize; ++j) dot += a[j] * g[j] * v[j];
    });
    dot = over_warp(dot, Plus{});
    if (threadIdx.x % 32 == 0)
      dsums[2 * r + keys] = T(-0.5) * rstd * rstd * rstd * dot / s.template whole<T>(keys);
    map_columns(to + first, d + first, gamma, n, wide, [rstd](T a, T g) { return a * g * rstd; });
  }
  const int64_t first = s.queries + s.keys;
  map_columns(to + first, d + first, d + first, s.columns - first, wide, [](T v, T) { return v; });
}

// What a row adds to a column's sum: dy x rstd.
template <class A>
struct WidthTerms {
  static constexpr int kSize = Pack<A>::kSize;
  const A* dy;
  const A* x;
  const Compute<A>* sums;
  Widths s;
  int keys;
  PLANNER_DEVICE void operator()(int64_t r, int64_t c, Compute<A> (&to)[1][kSize]) const {
    const int64_t first = r * s.columns + (keys != 0 ? s.queries : 0);
    const int64_t n = keys != 0 ? s.keys : s.queries;
    const bool wide = s.in_packs(kSize) && aligned(dy) && aligned(x);
    const Compute<A> rstd = s.template rstd<Compute<A>>(sums, r, keys);
    Compute<A> d[kSize], v[kSize];
    load_pack(dy + first, c, n, wide, d);
    load_pack(x + first, c, n, wide, v);
    for (int j = 0; j < kSize; ++j) to[0][j] += d[j] * (v[j] * rstd);
  }
};

}  // namespace

void square_sums(const Queue& q, View sums, View qkv, const host::HeadShape& shape) {
  check_statistics(qkv.type, sums);
  with_type(qkv.type, [&]<class A>() {
    launch(q, "square_sums", {blocks_of(shape.rows, kRowsOfBlock)}, {kRowThreads}, 0,
           width_squares<A>, typed<Compute<A>>(sums), typed<A>(qkv), Widths(shape));
  });
}
void square_sums_gradient(const Queue& q, View dqkv, View dsums, View qkv,
                          const host::HeadShape& shape, bool accumulate) {
  check_statistics(qkv.type, dsums);
  with_type(one_type(dqkv, qkv), [&]<class A>() {
    launch(q, "square_sums_gradient", {blocks_of(shape.rows, kRowsOfBlock)}, {kRowThreads}, 0,
           width_squares_gradient<A>, typed<A>(dqkv), typed<Compute<A>>(dsums), typed<A>(qkv),
           Widths(shape), accumulate);
  });
}
void width_norm(const Queue& q, View y, View qkv, View sums, View q_gamma, View k_gamma,
                const host::HeadShape& shape, const host::WidthNorm& norm) {
  check_statistics(qkv.type, sums);
  with_type(one_type(y, qkv, q_gamma, k_gamma), [&]<class A>() {
    launch(q, "width_norm", {blocks_of(shape.rows, kRowsOfBlock)}, {kRowThreads}, 0, norm_widths<A>,
           typed<A>(y), typed<A>(qkv), typed<Compute<A>>(sums), typed<A>(q_gamma),
           typed<A>(k_gamma), Widths(shape, norm));
  });
}
void width_norm_gradients(const Queue& q, View dqkv, View dsums, View dq_gamma, View dk_gamma,
                          View dy, View qkv, View sums, View q_gamma, View k_gamma,
                          const host::HeadShape& shape, const host::WidthNorm& norm) {
  check_statistics(qkv.type, sums, dsums);
  const Widths s(shape, norm);
  with_type(one_type(dqkv, dy, qkv, q_gamma, k_gamma), [&]<class A>() {
    using T = Compute<A>;
    for (int keys = 0; dq_gamma && keys < 2; ++keys)
      add_column_sums<A, 1>(q, "width_norm_weight_gradient",
                            {real(keys != 0 ? dk_gamma : dq_gamma)}, s.rows,
                            keys != 0 ? s.keys : s.queries,
                            WidthTerms<A>{typed<A>(dy), typed<A>(qkv), typed<T>(sums), s, keys});
    launch(q, "width_norm_gradient", {blocks_of(s.rows, kRowsOfBlock)}, {kRowThreads}, 0,
           norm_widths_gradient<A>, typed<A>(dqkv), typed<T>(dsums), typed<A>(dy), typed<A>(qkv),
           typed<T>(sums), typed<A>(q_gamma), typed<A>(k_gamma), s);
  });
}

}  // namespace exec::cuda
