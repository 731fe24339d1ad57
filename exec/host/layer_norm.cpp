#include "exec/host/kernels.hpp"
#include "exec/host/row_sum.hpp"

namespace exec::host {
namespace {

template <class T>
void forward_row(const View& y, const View& x, const View& gamma, const View& beta, std::int64_t n,
                 T mean, T rstd) {
  if (!beta)
    return elementwise<T>(n, y, [=](T v, T g) { return (v - mean) * rstd * g; }, x, gamma);
  elementwise<T>(
      n, y, [=](T v, T g, T b) { return (v - mean) * rstd * g + b; }, x, gamma, beta);
}

template <class T>
void input_gradient_row(const View& dx, const View& dy, const View& x, const View& gamma,
                        std::int64_t n, T mean, T rstd, bool accumulate) {
  const T sum_g = row_sum<T>(n, [](T d, T w) { return d * w; }, dy, gamma);
  const T sum_gx = row_sum<T>(
      n, [=](T d, T w, T v) { return d * w * ((v - mean) * rstd); }, dy, gamma, x);
  const T a = sum_g / static_cast<T>(n);
  const T b = sum_gx / static_cast<T>(n);
  const auto gradient = [=](T d, T w, T v) {
    return (d * w - a - (v - mean) * rstd * b) * rstd;
  };
  if (accumulate) {
    elementwise<T>(
        n, dx, [=](T d, T w, T v, T old) { return old + gradient(d, w, v); }, dy, gamma, x, dx);
  } else {
    elementwise<T>(n, dx, gradient, dy, gamma, x);
  }
}

}  // namespace

void layer_norm(View y, View mean, View rstd, View x, View gamma, View beta, std::int64_t rows,
                std::int64_t n, double epsilon) {
  with_compute_type(x.type, [&]<class T>() {
    const T count = static_cast<T>(n);
    for (std::int64_t r = 0; r < rows; ++r) {
      const View row = x.at(r * n);
      const T m = row_sum<T>(n, [](T v) { return v; }, row) / count;
      const T variance = row_sum<T>(n, [=](T v) { return (v - m) * (v - m); }, row) / count;
      const T s = T(1) / std::sqrt(variance + static_cast<T>(epsilon));
      forward_row(y.at(r * n), row, gamma, beta, n, m, s);
      put(mean, r, m);
      put(rstd, r, s);
    }
  });
}

void layer_norm_input_gradient(View dx, View dy, View x, View gamma, View mean, View rstd,
                               std::int64_t rows, std::int64_t n, bool accumulate) {
  with_compute_type(dy.type, [&]<class T>() {
    for (std::int64_t r = 0; r < rows; ++r) {
      input_gradient_row(dx.at(r * n), dy.at(r * n), x.at(r * n), gamma, n, get<T>(mean, r),
                         get<T>(rstd, r), accumulate);
    }
  });
}

void layer_norm_weight_gradient(View dgamma, View dbeta, View dy, View x, View mean, View rstd,
                                std::int64_t rows, std::int64_t n) {
  with_compute_type(dy.type, [&]<class T>() {
    for_chunks(n, [&](std::int64_t c, std::int64_t m) {
      T gamma_sum[kChunk], beta_sum[kChunk], dy_buffer[kChunk], x_buffer[kChunk];
      load(dgamma.at(c), m, gamma_sum);
      if (dbeta) load(dbeta.at(c), m, beta_sum);
      for (std::int64_t r = 0; r < rows; ++r) {
        const T* const d = read(dy.at(r * n + c), m, dy_buffer);
        const T* const v = read(x.at(r * n + c), m, x_buffer);
        const T centre = get<T>(mean, r), s = get<T>(rstd, r);
        for (std::int64_t i = 0; i < m; ++i) gamma_sum[i] += d[i] * ((v[i] - centre) * s);
        for (std::int64_t i = 0; dbeta && i < m; ++i) beta_sum[i] += d[i];
      }
      store(dgamma.at(c), m, gamma_sum);
      if (dbeta) store(dbeta.at(c), m, beta_sum);
    });
  });
}

}  // namespace exec::host
