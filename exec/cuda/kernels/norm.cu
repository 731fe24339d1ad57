// Layer norm, RMS norm and the norm of heads, of rows of any length at any address: one warp a row,
// whose second and third reading come from the cache. Rows that fit in registers go to
// norm_rows.cu. Gradients of gamma and beta are sums over rows, in strips, the strips then
// ascending.
#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/norm_rows.cuh"
#include "exec/cuda/kernels/warp_rows.cuh"

namespace exec::cuda {
namespace {

NormRows plain(int64_t rows, int64_t n, double offset = 0) { return {rows, n, n, 1, 1, offset}; }
NormRows heads(const host::HeadShape& s, const View& gamma, double offset) {
  const int64_t normed = s.heads + s.kv_heads;
  return {s.rows * normed, s.head_dim, s.columns(), normed, s.heads, gamma ? offset : 1.0};
}

// What a row is multiplied by: gamma and its offset, or the offset alone.
template <class A>
PLANNER_DEVICE void load_gamma(const A* gamma, int64_t i, const NormRows& rows, bool wide,
                               Compute<A>* out) {
  constexpr int kSize = Pack<A>::kSize;
  for (int j = 0; j < kSize; ++j) out[j] = Compute<A>(0);
  if (gamma != nullptr) load_pack(gamma, i, rows.n, wide, out);
  for (int j = 0; j < kSize; ++j) out[j] += static_cast<Compute<A>>(rows.gamma_offset);
}

// y = (x - mean) rstd gamma + beta (kCentred), or x rstd (offset + gamma). kAdds: x = a + b first,
// stored.
template <class A, bool kCentred, bool kAdds>
__global__ void norm_forward(A* y, Compute<A>* mean, Compute<A>* rstd, A* x, const A* a,
                             const A* b, const A* gamma0, const A* gamma1, const A* beta,
                             NormRows rows, Compute<A> epsilon) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t row = own_row(rows.count), n = rows.n;
  if (row < 0) return;
  const int64_t at = rows.offset(row);
  const A* const gamma = rows.which(row) == 0 ? gamma0 : gamma1;
  const bool wide = n % kSize == 0 && rows.columns % kSize == 0 && aligned(x) && aligned(y) &&
                    aligned(gamma) && (!kAdds || (aligned(a) && aligned(b)));
  T sum = T(0);
  if constexpr (kAdds) {
    for_packs<A>(n, [&](int64_t i) {
      T v[kSize], w[kSize];
      load_pack(a + at, i, n, wide, v);
      load_pack(b + at, i, n, wide, w);
      for (int j = 0; j < kSize; ++j) v[j] += w[j];
      store_pack(x + at, i, n, wide, v);
      // The norm is of the sum as it is stored.
      for (int j = 0; j < kSize; ++j) sum += widen(narrowed<A>(v[j]));
    });
  } else if constexpr (kCentred) {
    for_packs<A>(n, [&](int64_t i) {
      T v[kSize];
      load_pack(static_cast<const A*>(x) + at, i, n, wide, v);
      for (int j = 0; j < kSize; ++j) sum += v[j];
    });
  }
  const T centre = kCentred ? over_warp(sum, Plus{}) / static_cast<T>(n) : T(0);
  T squares = T(0);
  for_packs<A>(n, [&](int64_t i) {
    T v[kSize];
    load_pack(static_cast<const A*>(x) + at, i, n, wide, v);
    for (int j = 0; j < kSize; ++j)
      if (i + j < n) squares += (v[j] - centre) * (v[j] - centre);
  });
  const T scale = T(1) / root_of(over_warp(squares, Plus{}) / static_cast<T>(n) + epsilon);
  if (threadIdx.x % 32 == 0) {
    if (kCentred) mean[row] = centre;
    rstd[row] = scale;
  }
  for_packs<A>(n, [&](int64_t i) {
    T v[kSize], g[kSize];
    load_pack(static_cast<const A*>(x) + at, i, n, wide, v);
    load_gamma(gamma, i, rows, wide, g);
    for (int j = 0; j < kSize; ++j) v[j] = (v[j] - centre) * scale * g[j];
    if (kCentred && beta != nullptr) {
      T h[kSize];
      load_pack(beta, i, n, wide && aligned(beta), h);
      for (int j = 0; j < kSize; ++j) v[j] += h[j];
    }
    store_pack(y + at, i, n, wide, v);
  });
}

// dx (=|+=) rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma; without mean(g) unless centred.
// dx may be dy: a lane writes what it alone has read.
template <class A, bool kCentred>
__global__ void norm_gradient(A* dx, const A* dy, const A* x, const A* gamma0, const A* gamma1,
                              const Compute<A>* mean, const Compute<A>* rstd, NormRows rows,
                              bool accumulate) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t row = own_row(rows.count), n = rows.n;
  if (row < 0) return;
  const int64_t at = rows.offset(row);
  const A* const gamma = rows.which(row) == 0 ? gamma0 : gamma1;
  const bool wide = n % kSize == 0 && rows.columns % kSize == 0 && aligned(dx) && aligned(dy) &&
                    aligned(x) && aligned(gamma);
  const T centre = kCentred ? mean[row] : T(0), scale = rstd[row];
  T sum = T(0), dot = T(0);
  for_packs<A>(n, [&](int64_t i) {
    T d[kSize], v[kSize], g[kSize];
    load_pack(dy + at, i, n, wide, d);
    load_pack(x + at, i, n, wide, v);
    load_gamma(gamma, i, rows, wide, g);
    for (int j = 0; j < kSize; ++j) {
      sum += d[j] * g[j];
      dot += d[j] * g[j] * ((v[j] - centre) * scale);
    }
  });
  const T a = kCentred ? over_warp(sum, Plus{}) / static_cast<T>(n) : T(0);
  const T b = over_warp(dot, Plus{}) / static_cast<T>(n);
  for_packs<A>(n, [&](int64_t i) {
    T d[kSize], v[kSize], g[kSize];
    load_pack(dy + at, i, n, wide, d);
    load_pack(x + at, i, n, wide, v);
    load_gamma(gamma, i, rows, wide, g);
    for (int j = 0; j < kSize; ++j)
      d[j] = (d[j] * g[j] - a - (v[j] - centre) * scale * b) * scale;
    if (accumulate) {
      load_pack(static_cast<const A*>(dx) + at, i, n, wide, v);
      for (int j = 0; j < kSize; ++j) d[j] += v[j];
    }
    store_pack(dx + at, i, n, wide, d);
  });
}

// The columns behind the normed heads, as they are.
template <class A>
__global__ void copy_values(A* to, const A* from, int64_t rows, int64_t columns, int64_t first) {
  const int64_t row = own_row(rows);
  if (row < 0) return;
  const int64_t at = row * columns + first, n = columns - first;
  const bool wide = first % Pack<A>::kSize == 0 && columns % Pack<A>::kSize == 0 && aligned(to) &&
                    aligned(from);
  for_packs<A>(n, [&](int64_t i) {
    Compute<A> v[Pack<A>::kSize];
    load_pack(from + at, i, n, wide, v);
    store_pack(to + at, i, n, wide, v);
  });
}

// What a row adds to a column's sums.
template <class A>
struct NormTerms {
  static constexpr int kSize = Pack<A>::kSize;
  const A* dy;
  const A* x;
  const Compute<A>* mean;              // null: not centred
  const Compute<A>* rstd;
  int64_t n;
  PLANNER_DEVICE void operator()(int64_t r, int64_t c, Compute<A> (&sums)[2][kSize]) const {
    const bool wide = n % kSize == 0 && aligned(dy) && aligned(x);
    const Compute<A> centre = mean != nullptr ? mean[r] : Compute<A>(0), scale = rstd[r];
    Compute<A> d[kSize], v[kSize];
    load_pack(dy + r * n, c, n, wide, d);
    load_pack(x + r * n, c, n, wide, v);
    for (int j = 0; j < kSize; ++j) {
      sums[0][j] += d[j] * ((v[j] - centre) * scale);
      sums[1][j] += d[j];
    }
  }
};
// Column c of the sums over the heads [first, first + count) of row r.
template <class A>
struct HeadTerms {
  static constexpr int kSize = Pack<A>::kSize;
  const A* dy;
  const A* x;
  const Compute<A>* rstd;
  int64_t n, columns, normed, first, count;
  PLANNER_DEVICE void operator()(int64_t r, int64_t c, Compute<A> (&sums)[1][kSize]) const {
    const bool wide = n % kSize == 0 && columns % kSize == 0 && aligned(dy) && aligned(x);
    PLANNER_UNROLL_BY(4)
    for (int64_t head = first; head < first + count; ++head) {
      const int64_t at = r * columns + head * n;
      const Compute<A> scale = rstd[r * normed + head];
      Compute<A> d[kSize], v[kSize];
      load_pack(dy + at, c, n, wide, d);
      load_pack(x + at, c, n, wide, v);
      for (int j = 0; j < kSize; ++j) sums[0][j] += d[j] * (v[j] * scale);
    }
  }
};

template <bool kCentred>
void gradient_of(const Queue& q, const char* name, const NormGradients& v, const NormRows& rows,
                 bool accumulate) {
  with_type(one_type(v.dx, v.dy, v.x, v.gamma0, v.gamma1), [&]<class A>() {
    using T = Compute<A>;
    check_statistics(v.x.type, v.rstd);
    launch(q, name, {blocks_of(rows.count, kRowsOfBlock)}, {kRowThreads}, 0,
           norm_gradient<A, kCentred>, typed<A>(v.dx), typed<A>(v.dy), typed<A>(v.x),
           typed<A>(v.gamma0), typed<A>(v.gamma1), typed<T>(v.mean), typed<T>(v.rstd), rows,
           accumulate);
  });
}

template <bool kCentred, bool kAdds>
void forward_of(const Queue& q, const char* name, const NormViews& v, const NormRows& rows,
                double epsilon) {
  if (norm_of_rows(q, name, v, rows, epsilon)) return;
  with_type(one_type(v.y, v.x, v.gamma0, v.gamma1, v.a, v.b, v.beta), [&]<class A>() {
    using T = Compute<A>;
    check_statistics(v.x.type, v.rstd);
    launch(q, name, {blocks_of(rows.count, kRowsOfBlock)}, {kRowThreads}, 0,
           norm_forward<A, kCentred, kAdds>, typed<A>(v.y), typed<T>(v.mean), typed<T>(v.rstd),
           typed<A>(v.x), typed<A>(v.a), typed<A>(v.b), typed<A>(v.gamma0), typed<A>(v.gamma1),
           typed<A>(v.beta), rows, static_cast<T>(epsilon));
  });
}

}  // namespace

void layer_norm(const Queue& q, View y, View mean, View rstd, View x, View gamma, View beta,
                int64_t rows, int64_t n, double epsilon) {
  forward_of<true, false>(q, "layer_norm", {y, x, mean, rstd, gamma, gamma, beta}, plain(rows, n),
                          epsilon);
}
void add_layer_norm(const Queue& q, View sum, View a, View b, View y, View mean, View rstd,
                    View gamma, View beta, int64_t rows, int64_t n, double epsilon) {
  forward_of<true, true>(q, "add_layer_norm", {y, sum, mean, rstd, gamma, gamma, beta, a, b},
                         plain(rows, n), epsilon);
}
void layer_norm_gradients(const Queue& q, View dx, View dgamma, View dbeta, View dy, View x,
                          View gamma, View mean, View rstd, int64_t rows, int64_t n,
                          bool accumulate) {
  const NormGradients v{dx, dy, x, mean, rstd, gamma, gamma, dgamma, dbeta};
  if (norm_gradients_of_rows(q, "layer_norm_gradients", v, plain(rows, n), accumulate)) return;
  if (dgamma)
    with_type(one_type(dy, x), [&]<class A>() {
      using T = Compute<A>;
      add_column_sums<A, 2>(q, "layer_norm_weight_gradient", {real(dgamma), real(dbeta)}, rows, n,
                            NormTerms<A>{typed<A>(dy), typed<A>(x), typed<T>(mean),
                                         typed<T>(rstd), n});
    });
  gradient_of<true>(q, "layer_norm_input_gradient", v, plain(rows, n), accumulate);
}
void rms_norm(const Queue& q, View y, View rstd, View x, View gamma, int64_t rows, int64_t n,
              double epsilon, double offset) {
  forward_of<false, false>(q, "rms_norm", {y, x, {}, rstd, gamma, gamma}, plain(rows, n, offset),
                           epsilon);
}
void rms_norm_gradients(const Queue& q, View dx, View dgamma, View dy, View x, View gamma,
                        View rstd, int64_t rows, int64_t n, bool accumulate, double offset) {
  const NormGradients v{dx, dy, x, {}, rstd, gamma, gamma, dgamma};
  const NormRows all = plain(rows, n, offset);
  if (norm_gradients_of_rows(q, "rms_norm_gradients", v, all, accumulate)) return;
  if (dgamma)
    with_type(one_type(dy, x), [&]<class A>() {
      using T = Compute<A>;
      add_column_sums<A, 1>(q, "rms_norm_weight_gradient", {real(dgamma)}, rows, n,
                            HeadTerms<A>{typed<A>(dy), typed<A>(x), typed<T>(rstd), n, n, 1, 0, 1});
    });
  gradient_of<false>(q, "rms_norm_input_gradient", v, all, accumulate);
}

void qk_norm(const Queue& q, View y, View rstd, View qkv, View q_gamma, View k_gamma,
             const host::HeadShape& s, double epsilon, double offset) {
  forward_of<false, false>(q, "qk_norm", {y, qkv, {}, rstd, q_gamma, k_gamma},
                           heads(s, q_gamma, offset), epsilon);
  with_type(y.type, [&]<class A>() {
    launch(q, "copy_values", {blocks_of(s.rows, kRowsOfBlock)}, {kRowThreads}, 0, copy_values<A>,
           typed<A>(y), typed<A>(qkv), s.rows, s.columns(), (s.heads + s.kv_heads) * s.head_dim);
  });
}
void qk_norm_input_gradient(const Queue& q, View dqkv, View dy, View qkv, View q_gamma,
                            View k_gamma, View rstd, const host::HeadShape& s, double offset) {
  const NormGradients v{dqkv, dy, qkv, {}, rstd, q_gamma, k_gamma};
  const NormRows all = heads(s, q_gamma, offset);
  if (!norm_gradients_of_rows(q, "qk_norm_input_gradient", v, all, false))
    gradient_of<false>(q, "qk_norm_input_gradient", v, all, false);
  with_type(dy.type, [&]<class A>() {
    launch(q, "copy_values", {blocks_of(s.rows, kRowsOfBlock)}, {kRowThreads}, 0, copy_values<A>,
           typed<A>(dqkv), typed<A>(dy), s.rows, s.columns(), (s.heads + s.kv_heads) * s.head_dim);
  });
}
void qk_norm_weight_gradient(const Queue& q, View dq_gamma, View dk_gamma, View dy, View qkv,
                             View rstd, const host::HeadShape& s) {
  with_type(one_type(dy, qkv), [&]<class A>() {
    using T = Compute<A>;
    const int64_t normed = s.heads + s.kv_heads;
    const auto sums = [&](View gamma, int64_t first, int64_t count) {
      add_column_sums<A, 1>(q, "qk_norm_weight_gradient", {real(gamma)}, s.rows, s.head_dim,
                            HeadTerms<A>{typed<A>(dy), typed<A>(qkv), typed<T>(rstd), s.head_dim,
                                         s.columns(), normed, first, count});
    };
    sums(dq_gamma, 0, s.heads);
    sums(dk_gamma, s.heads, s.kv_heads);
  });
}

}  // namespace exec::cuda
