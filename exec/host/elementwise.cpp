#include <cstring>

#include "exec/host/convert.hpp"
#include "exec/host/gelu.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/vector_math.hpp"
#include "models/ops/schemas.hpp"

namespace exec::host {
namespace {

// The normal distribution's own form, and its slope: the distribution plus x times its density.
template <class T>
T distribution(T x) {
  return T(0.5) * (T(1) + std::erf(x * static_cast<T>(0.70710678118654752)));
}
template <class T>
T exact_gelu_slope(T x) {
  constexpr double kDensity = 0.39894228040143268;  // 1 / sqrt(2 pi)
  return distribution(x) + x * static_cast<T>(kDensity) * exp_of(T(-0.5) * x * x);
}

// dx (=|+=) body(dy, x).
template <class T, class Body>
void gradient(View dx, View dy, View x, std::int64_t n, bool accumulate, Body body) {
  if (!accumulate) return elementwise<T>(n, dx, body, dy, x);
  elementwise<T>(n, dx, [body](T d, T v, T old) { return old + body(d, v); }, dy, x, dx);
}

// Wide enough for both operands.
core::DType wider(core::DType a, core::DType b) {
  return a == core::DType::f64 ? a : b;
}

}  // namespace

void gelu(View y, View x, std::int64_t n, models::Activation form) {
  with_compute_type(x.type, [&]<class T>() {
    if (form == models::Activation::gelu_erf)
      return elementwise<T>(n, y, [](T v) { return v * distribution(v); }, x);
    elementwise<T>(n, y, [](T v) { return gelu_of(v); }, x);
  });
}

void gelu_gradient(View dx, View dy, View x, std::int64_t n, models::Activation form,
                   bool accumulate) {
  with_compute_type(x.type, [&]<class T>() {
    if (form == models::Activation::gelu_erf)
      return gradient<T>(dx, dy, x, n, accumulate,
                         [](T d, T v) { return d * exact_gelu_slope(v); });
    gradient<T>(dx, dy, x, n, accumulate, [](T d, T v) { return d * gelu_slope(v); });
  });
}

void swiglu(View y, View x, std::int64_t rows, std::int64_t n) {
  with_compute_type(x.type, [&]<class T>() {
    for (std::int64_t r = 0; r < rows; ++r)
      elementwise<T>(
          n, y.at(r * n), [](T gate, T up) { return gate * logistic(gate) * up; },
          x.at(2 * r * n), x.at((2 * r + 1) * n));
  });
}

// silu'(z) = s (1 + z (1 - s)), s = logistic(z).
void swiglu_gradient(View dx, View dy, View x, std::int64_t rows, std::int64_t n) {
  with_compute_type(x.type, [&]<class T>() {
    for (std::int64_t r = 0; r < rows; ++r) {
      const View gate = x.at(2 * r * n), up = x.at((2 * r + 1) * n), d = dy.at(r * n);
      elementwise<T>(
          n, dx.at(2 * r * n),
          [](T g, T u, T v) {
            const T s = logistic(g);
            return v * u * (s * (T(1) + g * (T(1) - s)));
          },
          gate, up, d);
      elementwise<T>(
          n, dx.at((2 * r + 1) * n), [](T g, T v) { return v * (g * logistic(g)); }, gate, d);
    }
  });
}

void relu(View y, View x, std::int64_t n) {
  with_compute_type(x.type, [&]<class T>() {
    elementwise<T>(n, y, [](T v) { return v < T(0) ? T(0) : v; }, x);
  });
}

void relu_gradient(View dx, View dy, View y, std::int64_t n, bool accumulate) {
  with_compute_type(dy.type, [&]<class T>() {
    gradient<T>(dx, dy, y, n, accumulate, [](T d, T v) { return v > T(0) ? d : T(0); });
  });
}

// y = max(x, 0)^2
static void relu_squared(View y, View x, std::int64_t n) {
  with_compute_type(x.type, [&]<class T>() {
    elementwise<T>(n, y, [](T v) { return v < T(0) ? T(0) : v * v; }, x);
  });
}

static void relu_squared_gradient(View dx, View dy, View x, std::int64_t n, bool accumulate) {
  with_compute_type(x.type, [&]<class T>() {
    gradient<T>(dx, dy, x, n, accumulate,
                [](T d, T v) { return v > T(0) ? T(2) * v * d : T(0); });
  });
}

// y = cap tanh(x / cap)
static void soft_cap(View y, View x, std::int64_t n, double cap) {
  with_compute_type(x.type, [&]<class T>() {
    const T c = static_cast<T>(cap);
    elementwise<T>(n, y, [c](T v) { return c * std::tanh(v / c); }, x);
  });
}

static void soft_cap_gradient(View dx, View dy, View x, std::int64_t n, double cap,
                              bool accumulate) {
  with_compute_type(x.type, [&]<class T>() {
    const T c = static_cast<T>(cap);
    gradient<T>(dx, dy, x, n, accumulate, [c](T d, T v) {
      const T t = std::tanh(v / c);
      return d * (T(1) - t * t);
    });
  });
}

void unary(View y, View x, std::int64_t n, models::OpKind kind, const UnaryForm& form) {
  switch (kind) {
    case models::OpKind::gelu: return gelu(y, x, n, form.form);
    case models::OpKind::relu: return relu(y, x, n);
    case models::OpKind::relu_squared: return relu_squared(y, x, n);
    case models::OpKind::soft_cap: return soft_cap(y, x, n, form.factor);
    default: PLANNER_CHECK(false, "not a function of one element");
  }
}

void unary_gradient(View dx, View dy, View kept, std::int64_t n, models::OpKind kind,
                    const UnaryForm& form, bool accumulate) {
  switch (kind) {
    case models::OpKind::gelu: return gelu_gradient(dx, dy, kept, n, form.form, accumulate);
    case models::OpKind::relu: return relu_gradient(dx, dy, kept, n, accumulate);
    case models::OpKind::relu_squared: return relu_squared_gradient(dx, dy, kept, n, accumulate);
    case models::OpKind::soft_cap:
      return soft_cap_gradient(dx, dy, kept, n, form.factor, accumulate);
    default: PLANNER_CHECK(false, "not a function of one element");
  }
}

void activate(View z, models::Activation act, std::int64_t n) {
  if (act == models::Activation::gelu_tanh) return gelu(z, z, n);
  if (act == models::Activation::relu) return relu(z, z, n);
  with_compute_type(z.type, [&]<class T>() {
    if (act == models::Activation::tanh)
      elementwise<T>(
          n, z, [](T v) { return std::tanh(v); }, z);
  });
}

void activate_gradient(View dy, View y, models::Activation act, std::int64_t n) {
  PLANNER_CHECK(act != models::Activation::gelu_tanh, "gelu' is not a function of gelu's value");
  if (act == models::Activation::relu) return relu_gradient(dy, dy, y, n);
  with_compute_type(dy.type, [&]<class T>() {
    if (act == models::Activation::tanh) {
      elementwise<T>(n, dy, [](T d, T v) { return d * (T(1) - v * v); }, dy, y);
    }
  });
}

void add(View y, View a, View b, std::int64_t n) {
  with_compute_type(y.type, [&]<class T>() {
    elementwise<T>(n, y, [](T u, T v) { return u + v; }, a, b);
  });
}

void add_into(View y, View x, std::int64_t n) { add(y, y, x, n); }

void scale(View y, double factor, std::int64_t n) {
  with_compute_type(y.type, [&]<class T>() {
    const T f = static_cast<T>(factor);
    elementwise<T>(n, y, [f](T v) { return v * f; }, y);
  });
}

void cast(View to, View from, std::int64_t n) {
  if (to.type == from.type) return copy(to, from, n);
  with_compute_type(wider(to.type, from.type), [&]<class T>() {
    elementwise<T>(n, to, [](T v) { return v; }, from);
  });
}

void copy(View to, View from, std::int64_t n) {
  PLANNER_CHECK(to.type == from.type, "copy keeps the type; cast changes it");
  std::memmove(to.data, from.data, static_cast<std::size_t>(core::bytes_of(n, to.type).value()));
}

void fill_zero(View y, std::int64_t n) {
  std::memset(y.data, 0, static_cast<std::size_t>(core::bytes_of(n, y.type).value()));
}

void reduce_into(View acc, View x, ReduceOp op, std::int64_t n) {
  if (op == ReduceOp::sum) return add_into(acc, x, n);
  with_compute_type(acc.type, [&]<class T>() {
    elementwise<T>(n, acc, [](T a, T b) { return max_of(a, b); }, acc, x);
  });
}

}  // namespace exec::host
