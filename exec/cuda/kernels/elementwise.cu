// Elementwise kernels: 16 bytes an access, one pack of elements a thread. Bound by memory.
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {
namespace {

constexpr int kThreads = 256;

// y[i] = body(x0[i], x1[i] ...). y may be an input.
template <class A, class Body>
__global__ void map_one(A* y, const A* x, int64_t n, Body body) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
  if (i >= n) return;
  const bool wide = aligned(y) && aligned(x);
  Compute<A> a[kSize], out[kSize];
  load_pack(x, i, n, wide, a);
  for (int j = 0; j < kSize; ++j) out[j] = body(a[j]);
  store_pack(y, i, n, wide, out);
}

template <class A, class Body>
__global__ void map_two(A* y, const A* x0, const A* x1, int64_t n, Body body) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
  if (i >= n) return;
  const bool wide = aligned(y) && aligned(x0) && aligned(x1);
  Compute<A> a[kSize], b[kSize], out[kSize];
  load_pack(x0, i, n, wide, a);
  load_pack(x1, i, n, wide, b);
  for (int j = 0; j < kSize; ++j) out[j] = body(a[j], b[j]);
  store_pack(y, i, n, wide, out);
}

// to[i] = body(to[i], from[i]) in the wider of both types' arithmetic; body may ignore `to`.
constexpr int kConverted = 8;          // elements a thread: packs of either type
template <class To, class From, bool kAdds>
__global__ void convert(To* to, const From* from, int64_t n) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kConverted;
  if (i >= n) return;
  const bool wide = aligned(to) && aligned(from);
  Compute<From> x[kConverted];
  Compute<To> y[kConverted];
  for (int k = 0; k < kConverted; k += Pack<From>::kSize) load_pack(from, i + k, n, wide, x + k);
  if constexpr (kAdds)
    for (int k = 0; k < kConverted; k += Pack<To>::kSize)
      load_pack(static_cast<const To*>(to), i + k, n, wide, y + k);
  for (int j = 0; j < kConverted; ++j) {
    if constexpr (kAdds) y[j] += static_cast<Compute<To>>(x[j]);
    else y[j] = static_cast<Compute<To>>(x[j]);
  }
  for (int k = 0; k < kConverted; k += Pack<To>::kSize) store_pack(to, i + k, n, wide, y + k);
}

template <class A, class Body>
void one(const Queue& q, const char* name, View y, View x, int64_t n, Body body) {
  if (n == 0) return;
  launch(q, name, {blocks_of(n, kThreads * Pack<A>::kSize)}, {kThreads}, 0, map_one<A, Body>,
         typed<A>(y), typed<A>(x), n, body);
}
template <class A, class Body>
void two(const Queue& q, const char* name, View y, View a, View b, int64_t n, Body body) {
  if (n == 0) return;
  launch(q, name, {blocks_of(n, kThreads * Pack<A>::kSize)}, {kThreads}, 0, map_two<A, Body>,
         typed<A>(y), typed<A>(a), typed<A>(b), n, body);
}

// gelu(x) = x logistic(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form without cancellation.
constexpr double kTwiceRoot = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double kCubic = 0.044715;
constexpr double kRootHalf = 0.70710678118654752;
constexpr double kDensity = 0.39894228040143268;   // 1 / sqrt(2 pi)

struct Gelu {
  bool exact;
  template <class T>
  PLANNER_DEVICE T operator()(T x) const {
    if (exact) return x * (T(0.5) * (T(1) + erf_of(x * T(kRootHalf))));
    return x * logistic(T(kTwiceRoot) * x * (T(1) + T(kCubic) * x * x));
  }
};
struct GeluGradient {
  bool exact;
  template <class T>
  PLANNER_DEVICE T operator()(T dy, T x) const {
    if (exact) {
      const T below = T(0.5) * (T(1) + erf_of(x * T(kRootHalf)));
      return dy * (below + x * T(kDensity) * exp_of(T(-0.5) * x * x));
    }
    const T x2 = x * x;
    const T s = logistic(T(kTwiceRoot) * x * (T(1) + T(kCubic) * x2));
    const T slope = T(kTwiceRoot) * (T(1) + T(3 * kCubic) * x2);
    return dy * (s + x * s * (T(1) - s) * slope);
  }
};
struct Relu {
  template <class T>
  PLANNER_DEVICE T operator()(T x) const { return x < T(0) ? T(0) : x; }
};
struct ReluGradient {
  template <class T>
  PLANNER_DEVICE T operator()(T dy, T y) const { return y > T(0) ? dy : T(0); }
};
struct Tanh {
  template <class T>
  PLANNER_DEVICE T operator()(T x) const { return tanh_of(x); }
};
struct TanhGradient {
  template <class T>
  PLANNER_DEVICE T operator()(T dy, T y) const { return dy * (T(1) - y * y); }
};

struct Scaled {
  double factor;
  template <class T>
  PLANNER_DEVICE T operator()(T x) const { return x * static_cast<T>(factor); }
};
struct ReluSquared {
  template <class T>
  PLANNER_DEVICE T operator()(T x) const { return x > T(0) ? x * x : T(0); }
};
struct ReluSquaredGradient {
  template <class T>
  PLANNER_DEVICE T operator()(T dy, T x) const { return x > T(0) ? T(2) * x * dy : T(0); }
};
struct SoftCap {
  double cap;
  template <class T>
  PLANNER_DEVICE T operator()(T x) const {
    return static_cast<T>(cap) * tanh_of(x / static_cast<T>(cap));
  }
};
struct SoftCapGradient {
  double cap;
  template <class T>
  PLANNER_DEVICE T operator()(T dy, T x) const {
    const T t = tanh_of(x / static_cast<T>(cap));
    return dy * (T(1) - t * t);
  }
};

// ---- gates: their value, and the derivatives by gate and by up

struct Swiglu {                        // silu'(z) = s (1 + z (1 - s)), s = logistic(z)
  static constexpr const char *kName = "swiglu", *kGradient = "swiglu_gradient";
  template <class T>
  static PLANNER_DEVICE T value(T gate, T up) { return gate * logistic(gate) * up; }
  template <class T>
  static PLANNER_DEVICE T by_gate(T d, T gate, T up) {
    const T s = logistic(gate);
    return d * up * (s * (T(1) + gate * (T(1) - s)));
  }
  template <class T>
  static PLANNER_DEVICE T by_up(T d, T gate, T) { return d * (gate * logistic(gate)); }
};
struct Geglu {
  static constexpr const char *kName = "geglu", *kGradient = "geglu_gradient";
  template <class T>
  static PLANNER_DEVICE T value(T gate, T up) { return Gelu{false}(gate) * up; }
  template <class T>
  static PLANNER_DEVICE T by_gate(T d, T gate, T up) { return GeluGradient{false}(d * up, gate); }
  template <class T>
  static PLANNER_DEVICE T by_up(T d, T gate, T) { return d * Gelu{false}(gate); }
};
struct ClampedSwiglu {                 // [gpt-oss]
  static constexpr const char *kName = "clamped_swiglu", *kGradient = "clamped_swiglu_gradient";
  static constexpr double kMost = 7.0, kSlope = 1.702;
  template <class T>
  static PLANNER_DEVICE T cut_gate(T gate) { return gate > T(kMost) ? T(kMost) : gate; }
  template <class T>
  static PLANNER_DEVICE T cut_up(T up) {
    return up < T(-kMost) ? T(-kMost) : up > T(kMost) ? T(kMost) : up;
  }
  template <class T>
  static PLANNER_DEVICE T value(T gate, T up) {
    const T g = cut_gate(gate);
    return (cut_up(up) + T(1)) * g * logistic(T(kSlope) * g);
  }
  template <class T>
  static PLANNER_DEVICE T by_gate(T d, T gate, T up) {
    if (gate > T(kMost)) return T(0);
    const T s = logistic(T(kSlope) * gate);
    return d * ((cut_up(up) + T(1)) * s * (T(1) + T(kSlope) * gate * (T(1) - s)));
  }
  template <class T>
  static PLANNER_DEVICE T by_up(T d, T gate, T up) {
    const T g = cut_gate(gate);
    return up < T(-kMost) || up > T(kMost) ? T(0) : d * (g * logistic(T(kSlope) * g));
  }
};

// x[rows, 2n] = [gate, up]; one pack of y's elements a thread.
template <class A, class G>
__global__ void gate(A* y, const A* x, int64_t rows, int64_t n) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (n + kSize - 1) / kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const bool wide = n % kSize == 0 && aligned(y) && aligned(x);
  Compute<A> g[kSize], u[kSize];
  load_pack(x + 2 * r * n, i, n, wide, g);
  load_pack(x + (2 * r + 1) * n, i, n, wide, u);
  for (int j = 0; j < kSize; ++j) u[j] = G::value(g[j], u[j]);
  store_pack(y + r * n, i, n, wide, u);
}

template <class A, class G>
__global__ void gate_gradient(A* dx, const A* dy, const A* x, int64_t rows, int64_t n) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t packs = (n + kSize - 1) / kSize;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * packs) return;
  const int64_t r = at / packs, i = at % packs * kSize;
  const bool wide = n % kSize == 0 && aligned(dx) && aligned(dy) && aligned(x);
  T g[kSize], u[kSize], d[kSize];
  load_pack(x + 2 * r * n, i, n, wide, g);
  load_pack(x + (2 * r + 1) * n, i, n, wide, u);
  load_pack(dy + r * n, i, n, wide, d);
  for (int j = 0; j < kSize; ++j) {
    const T up = u[j];
    u[j] = G::by_gate(d[j], g[j], up);
    d[j] = G::by_up(d[j], g[j], up);
  }
  store_pack(dx + 2 * r * n, i, n, wide, u);
  store_pack(dx + (2 * r + 1) * n, i, n, wide, d);
}

// body.template operator()<G>()
template <class Body>
void with_gate(models::OpKind kind, Body&& body) {
  switch (kind) {
    case models::OpKind::swiglu: return body.template operator()<Swiglu>();
    case models::OpKind::geglu: return body.template operator()<Geglu>();
    case models::OpKind::clamped_swiglu: return body.template operator()<ClampedSwiglu>();
    default: PLANNER_CHECK(false, "not a gate");
  }
}

template <bool kAdds>
void converted(const Queue& q, const char* name, View to, View from, int64_t n) {
  if (n == 0) return;
  with_type(to.type, [&]<class To>() {
    with_type(from.type, [&]<class From>() {
      launch(q, name, {blocks_of(n, kThreads * kConverted)}, {kThreads}, 0,
             convert<To, From, kAdds>, typed<To>(to), typed<From>(from), n);
    });
  });
}

}  // namespace

void gelu(const Queue& q, View y, View x, int64_t n, models::Activation form) {
  const Gelu body{form == models::Activation::gelu_erf};
  with_type(one_type(y, x), [&]<class A>() { one<A>(q, "gelu", y, x, n, body); });
}
void gelu_gradient(const Queue& q, View dx, View dy, View x, int64_t n, models::Activation form) {
  const GeluGradient body{form == models::Activation::gelu_erf};
  with_type(one_type(dx, dy, x),
            [&]<class A>() { two<A>(q, "gelu_gradient", dx, dy, x, n, body); });
}
void relu(const Queue& q, View y, View x, int64_t n) {
  with_type(one_type(y, x), [&]<class A>() { one<A>(q, "relu", y, x, n, Relu{}); });
}
void relu_gradient(const Queue& q, View dx, View dy, View y, int64_t n) {
  with_type(one_type(dx, dy, y),
            [&]<class A>() { two<A>(q, "relu_gradient", dx, dy, y, n, ReluGradient{}); });
}
void scale(const Queue& q, View y, View x, double factor, int64_t n) {
  with_type(one_type(y, x), [&]<class A>() { one<A>(q, "scale", y, x, n, Scaled{factor}); });
}
void unary(const Queue& q, View y, View x, int64_t n, models::OpKind kind,
           const host::UnaryForm& form) {
  switch (kind) {
    case models::OpKind::gelu: return gelu(q, y, x, n, form.form);
    case models::OpKind::relu: return relu(q, y, x, n);
    default: break;
  }
  with_type(one_type(y, x), [&]<class A>() {
    if (kind == models::OpKind::relu_squared)
      return one<A>(q, "relu_squared", y, x, n, ReluSquared{});
    PLANNER_CHECK(kind == models::OpKind::soft_cap, "not a function of one element");
    one<A>(q, "soft_cap", y, x, n, SoftCap{form.factor});
  });
}
void unary_gradient(const Queue& q, View dx, View dy, View kept, int64_t n, models::OpKind kind,
                    const host::UnaryForm& form) {
  switch (kind) {
    case models::OpKind::gelu: return gelu_gradient(q, dx, dy, kept, n, form.form);
    case models::OpKind::relu: return relu_gradient(q, dx, dy, kept, n);
    default: break;
  }
  with_type(one_type(dx, dy, kept), [&]<class A>() {
    if (kind == models::OpKind::relu_squared)
      return two<A>(q, "relu_squared_gradient", dx, dy, kept, n, ReluSquaredGradient{});
    PLANNER_CHECK(kind == models::OpKind::soft_cap, "not a function of one element");
    two<A>(q, "soft_cap_gradient", dx, dy, kept, n, SoftCapGradient{form.factor});
  });
}
void activate(const Queue& q, View z, models::Activation act, int64_t n) {
  using models::Activation;
  if (act == Activation::gelu_tanh || act == Activation::gelu_erf) return gelu(q, z, z, n, act);
  if (act == Activation::relu) return relu(q, z, z, n);
  if (act != Activation::tanh) return;
  with_type(z.type, [&]<class A>() { one<A>(q, "tanh", z, z, n, Tanh{}); });
}
void activate_gradient(const Queue& q, View dy, View y, models::Activation act, int64_t n) {
  using models::Activation;
  PLANNER_CHECK(act != Activation::gelu_tanh && act != Activation::gelu_erf,
                "gelu' is not a function of gelu's value");
  if (act == Activation::relu) return relu_gradient(q, dy, dy, y, n);
  if (act != Activation::tanh) return;
  with_type(one_type(dy, y),
            [&]<class A>() { two<A>(q, "tanh_gradient", dy, dy, y, n, TanhGradient{}); });
}

void gated(const Queue& q, View y, View x, int64_t rows, int64_t n, models::OpKind kind) {
  with_type(one_type(y, x), [&]<class A>() {
    const int64_t packs = (n + Pack<A>::kSize - 1) / Pack<A>::kSize;
    with_gate(kind, [&]<class G>() {
      launch(q, G::kName, {blocks_of(rows * packs, kThreads)}, {kThreads}, 0, gate<A, G>,
             typed<A>(y), typed<A>(x), rows, n);
    });
  });
}
void gated_gradient(const Queue& q, View dx, View dy, View x, int64_t rows, int64_t n,
                    models::OpKind kind) {
  with_type(one_type(dx, dy, x), [&]<class A>() {
    const int64_t packs = (n + Pack<A>::kSize - 1) / Pack<A>::kSize;
    with_gate(kind, [&]<class G>() {
      launch(q, G::kGradient, {blocks_of(rows * packs, kThreads)}, {kThreads}, 0,
             gate_gradient<A, G>, typed<A>(dx), typed<A>(dy), typed<A>(x), rows, n);
    });
  });
}

void add(const Queue& q, View y, View a, View b, int64_t n) {
  with_type(one_type(y, a, b), [&]<class A>() { two<A>(q, "add", y, a, b, n, Plus{}); });
}
void add_into(const Queue& q, View y, View x, int64_t n) {
  if (y.type == x.type) return add(q, y, y, x, n);
  converted<true>(q, "add_into", y, x, n);
}
void cast(const Queue& q, View to, View from, int64_t n) {
  PLANNER_CHECK(to.type != from.type, "a cast changes the type");
  converted<false>(q, "cast", to, from, n);
}

void combine(const Queue& q, View out, View left, View right, program::ReduceOp op, int64_t n) {
  PLANNER_CHECK(out.type == left.type && out.type == right.type, "a reduction keeps the type");
  const auto run = [&]<class A>() {
    if (op == program::ReduceOp::sum) return two<A>(q, "sum", out, left, right, n, Plus{});
    two<A>(q, "max", out, left, right, n, Greater{});
  };
  if (out.type == core::DType::i32) return run.template operator()<std::int32_t>();
  with_type(out.type, run);
}

}  // namespace exec::cuda
