#include "exec/host/kernels.hpp"
#include "exec/host/row_sum.hpp"

namespace exec::host {
namespace {

// y = x rstd (offset + gamma), without gamma x rstd; returns rstd.
template <class T>
T forward_row(const View& y, const View& x, const View& gamma, std::int64_t n, double epsilon,
              T offset) {
  const T square = row_sum<T>(n, [](T v) { return v * v; }, x) / static_cast<T>(n);
  const T rstd = T(1) / std::sqrt(square + static_cast<T>(epsilon));
  if (gamma)
    elementwise<T>(n, y, [=](T v, T g) { return v * rstd * (offset + g); }, x, gamma);
  else
    elementwise<T>(n, y, [=](T v) { return v * rstd; }, x);
  return rstd;
}

// dx (=|+=) rstd (g - xhat mean(g xhat)), g = dy (offset + gamma), xhat = x rstd.
template <class T>
void input_gradient_row(const View& dx, const View& dy, const View& x, const View& gamma,
                        std::int64_t n, T rstd, bool accumulate, T offset) {
  const T sum = row_sum<T>(
      n, [=](T d, T w, T v) { return d * (offset + w) * (v * rstd); }, dy, gamma, x);
  const T b = sum / static_cast<T>(n);
  const auto gradient = [=](T d, T w, T v) {
    return (d * (offset + w) - v * rstd * b) * rstd;
  };
  if (accumulate) {
    elementwise<T>(
        n, dx, [=](T d, T w, T v, T old) { return old + gradient(d, w, v); }, dy, gamma, x, dx);
  } else {
    elementwise<T>(n, dx, gradient, dy, gamma, x);
  }
}

// The same without gamma.
template <class T>
void plain_gradient_row(const View& dx, const View& dy, const View& x, std::int64_t n, T rstd) {
  const T sum = row_sum<T>(n, [=](T d, T v) { return d * (v * rstd); }, dy, x);
  const T b = sum / static_cast<T>(n);
  elementwise<T>(n, dx, [=](T d, T v) { return (d - v * rstd * b) * rstd; }, dy, x);
}

// Of the normalised heads of a row of q, k and v: queries, then keys.
struct NormedHead {
  std::int64_t column, statistic;
  View gamma;
};

template <class Body>
void for_heads(const HeadShape& s, const View& q_gamma, const View& k_gamma, Body&& body) {
  const std::int64_t normed = s.heads + s.kv_heads;
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t h = 0; h < normed; ++h)
      body(NormedHead{r * s.columns() + h * s.head_dim, r * normed + h,
                      h < s.heads ? q_gamma : k_gamma});
}

// The columns of the values: not normalised.
void copy_values(const HeadShape& s, View to, View from) {
  const std::int64_t first = (s.heads + s.kv_heads) * s.head_dim;
  for (std::int64_t r = 0; r < s.rows; ++r)
    cast(to.at(r * s.columns() + first), from.at(r * s.columns() + first),
         s.columns() - first);
}

}  // namespace

void rms_norm(View y, View rstd, View x, View gamma, std::int64_t rows, std::int64_t n,
              double epsilon, double offset) {
  with_compute_type(x.type, [&]<class T>() {
    for (std::int64_t r = 0; r < rows; ++r)
      put(rstd, r, forward_row<T>(y.at(r * n), x.at(r * n), gamma, n, epsilon,
                                  static_cast<T>(offset)));
  });
}

void rms_norm_input_gradient(View dx, View dy, View x, View gamma, View rstd, std::int64_t rows,
                             std::int64_t n, bool accumulate, double offset) {
  with_compute_type(dy.type, [&]<class T>() {
    for (std::int64_t r = 0; r < rows; ++r)
      input_gradient_row(dx.at(r * n), dy.at(r * n), x.at(r * n), gamma, n, get<T>(rstd, r),
                         accumulate, static_cast<T>(offset));
  });
}

void rms_norm_weight_gradient(View dgamma, View dy, View x, View rstd, std::int64_t rows,
                              std::int64_t n) {
  with_compute_type(dy.type, [&]<class T>() {
    for_chunks(n, [&](std::int64_t c, std::int64_t m) {
      T sum[kChunk], dy_buffer[kChunk], x_buffer[kChunk];
      load(dgamma.at(c), m, sum);
      for (std::int64_t r = 0; r < rows; ++r) {
        const T* const d = read(dy.at(r * n + c), m, dy_buffer);
        const T* const v = read(x.at(r * n + c), m, x_buffer);
        const T s = get<T>(rstd, r);
        for (std::int64_t i = 0; i < m; ++i) sum[i] += d[i] * (v[i] * s);
      }
      store(dgamma.at(c), m, sum);
    });
  });
}

void qk_norm(View y, View rstd, View qkv, View q_gamma, View k_gamma, const HeadShape& s,
             double epsilon, double offset) {
  copy_values(s, y, qkv);
  with_compute_type(qkv.type, [&]<class T>() {
    for_heads(s, q_gamma, k_gamma, [&](const NormedHead& h) {
      put(rstd, h.statistic,
          forward_row<T>(y.at(h.column), qkv.at(h.column), h.gamma, s.head_dim, epsilon,
                         static_cast<T>(offset)));
    });
  });
}

void qk_norm_input_gradient(View dqkv, View dy, View qkv, View q_gamma, View k_gamma, View rstd,
                            const HeadShape& s, double offset) {
  copy_values(s, dqkv, dy);
  with_compute_type(dy.type, [&]<class T>() {
    for_heads(s, q_gamma, k_gamma, [&](const NormedHead& h) {
      const View dx = dqkv.at(h.column), d = dy.at(h.column), x = qkv.at(h.column);
      const T of = get<T>(rstd, h.statistic);
      if (h.gamma)
        input_gradient_row(dx, d, x, h.gamma, s.head_dim, of, false, static_cast<T>(offset));
      else
        plain_gradient_row(dx, d, x, s.head_dim, of);
    });
  });
}

void qk_norm_weight_gradient(View dq_gamma, View dk_gamma, View dy, View qkv, View rstd,
                             const HeadShape& s) {
  for_heads(s, dq_gamma, dk_gamma, [&](const NormedHead& h) {
    rms_norm_weight_gradient(h.gamma, dy.at(h.column), qkv.at(h.column), rstd.at(h.statistic), 1,
                             s.head_dim);
  });
}

}  // namespace exec::host
