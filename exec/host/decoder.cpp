#include "exec/host/decoder.hpp"

#include "exec/host/convert.hpp"
#include "exec/host/gelu.hpp"
#include "exec/host/row_sum.hpp"
#include "exec/host/vector_math.hpp"
#include "models/ops/op_kind.hpp"

namespace exec::host {
namespace {

// [gpt-oss]: where gate and up are cut off, and the slope of the gate's sigmoid.
constexpr double kLimit = 7.0, kSlope = 1.702;

template <class T>
T cut(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

// What a gate does: its value, and the derivatives by gate and up.
template <class T>
struct Geglu {
  T value(T gate, T up) const { return gelu_of(gate) * up; }
  T by_gate(T gate, T up) const { return gelu_slope(gate) * up; }
  T by_up(T gate, T) const { return gelu_of(gate); }
};

template <class T>
struct Clamped {
  static constexpr T kMost = static_cast<T>(kLimit), kAlpha = static_cast<T>(kSlope);
  T value(T gate, T up) const {
    const T g = gate > kMost ? kMost : gate;
    return (cut(up, -kMost, kMost) + T(1)) * g * logistic(kAlpha * g);
  }
  T by_gate(T gate, T up) const {
    if (gate > kMost) return T(0);
    const T s = logistic(kAlpha * gate);
    return (cut(up, -kMost, kMost) + T(1)) * s * (T(1) + kAlpha * gate * (T(1) - s));
  }
  T by_up(T gate, T up) const {
    const T g = gate > kMost ? kMost : gate;
    return up < -kMost || up > kMost ? T(0) : g * logistic(kAlpha * g);
  }
};

// body.operator()<T>(the gate's functions), T the compute type.
template <class Body>
void with_gate(core::DType type, models::OpKind kind, Body&& body) {
  with_compute_type(type, [&]<class T>() {
    if (kind == models::OpKind::geglu) return body.template operator()<T>(Geglu<T>{});
    PLANNER_CHECK(kind == models::OpKind::clamped_swiglu, "not a gate");
    body.template operator()<T>(Clamped<T>{});
  });
}

}  // namespace

void gated(View y, View x, std::int64_t rows, std::int64_t n, models::OpKind kind) {
  if (kind == models::OpKind::swiglu) return swiglu(y, x, rows, n);
  with_gate(x.type, kind, [&]<class T>(const auto& gate) {
    for (std::int64_t r = 0; r < rows; ++r)
      elementwise<T>(n, y.at(r * n), [&](T g, T u) { return gate.value(g, u); }, x.at(2 * r * n),
                     x.at((2 * r + 1) * n));
  });
}

void gated_gradient(View dx, View dy, View x, std::int64_t rows, std::int64_t n,
                    models::OpKind kind) {
  if (kind == models::OpKind::swiglu) return swiglu_gradient(dx, dy, x, rows, n);
  with_gate(x.type, kind, [&]<class T>(const auto& gate) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const View g = x.at(2 * r * n), u = x.at((2 * r + 1) * n), d = dy.at(r * n);
      elementwise<T>(n, dx.at(2 * r * n), [&](T a, T b, T v) { return v * gate.by_gate(a, b); }, g,
                     u, d);
      elementwise<T>(n, dx.at((2 * r + 1) * n),
                     [&](T a, T b, T v) { return v * gate.by_up(a, b); }, g, u, d);
    }
  });
}

void row_gate(View y, View x, View gate, const RowGates& s) {
  with_compute_type(x.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const T open = s.open ? get<T>(gate, r) : logistic(get<T>(gate, r));
      elementwise<T>(s.n, y.at(r * s.n), [open](T v) { return open * v; }, x.at(r * s.n));
    }
  });
}

void row_gate_gradient(View dx, View dgate, View dy, View x, View gate, const RowGates& s,
                       bool accumulate) {
  with_compute_type(dy.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const T open = s.open ? get<T>(gate, r) : logistic(get<T>(gate, r));
      const View d = dy.at(r * s.n);
      const T dot = row_sum<T>(s.n, [](T a, T b) { return a * b; }, d, x.at(r * s.n));
      const View to = dx.at(r * s.n);
      const T slope = s.open ? dot : dot * open * (T(1) - open);
      if (accumulate)
        elementwise<T>(s.n, to, [open](T v, T old) { return old + open * v; }, d, to);
      else
        elementwise<T>(s.n, to, [open](T v) { return open * v; }, d);
      put(dgate, r, accumulate ? get<T>(dgate, r) + slope : slope);
    }
  });
}

namespace {

// Where the parts of one head lie, in rows of q, kv and qkv.
struct JoinedHead {
  std::int64_t q, kv, to_q, to_k, to_v;
};

template <class Body>
void for_joined(const HeadShape& s, std::int64_t rotated, Body&& body) {
  const std::int64_t d = s.head_dim, plain = d - rotated, dv = s.values();
  PLANNER_CHECK(s.heads == s.kv_heads, "latent attention has as many key heads as query heads");
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t row = r * s.columns();
      body(r, JoinedHead{(r * s.heads + h) * d, (r * s.heads + h) * (plain + dv), row + h * d,
                         row + (s.heads + h) * d, row + 2 * s.heads * d + h * dv});
    }
}

}  // namespace

void latent_join(View qkv, View q, View kv, View k_rope, const HeadShape& s,
                 std::int64_t rotated) {
  const std::int64_t d = s.head_dim, plain = d - rotated;
  for_joined(s, rotated, [&](std::int64_t r, const JoinedHead& h) {
    cast(qkv.at(h.to_q), q.at(h.q), d);
    cast(qkv.at(h.to_k), k_rope.at(r * rotated), rotated);
    cast(qkv.at(h.to_k + rotated), kv.at(h.kv), plain);
    cast(qkv.at(h.to_v), kv.at(h.kv + plain), s.values());
  });
}

void latent_join_gradient(View dq, View dkv, View dk_rope, View dqkv, const HeadShape& s,
                          std::int64_t rotated) {
  const std::int64_t d = s.head_dim, plain = d - rotated;
  for_joined(s, rotated, [&](std::int64_t, const JoinedHead& h) {
    cast(dq.at(h.q), dqkv.at(h.to_q), d);
    cast(dkv.at(h.kv), dqkv.at(h.to_k + rotated), plain);
    cast(dkv.at(h.kv + plain), dqkv.at(h.to_v), s.values());
  });
  with_compute_type(dqkv.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows; ++r)
      for_chunks(rotated, [&](std::int64_t c, std::int64_t m) {
        T sum[kChunk] = {}, buffer[kChunk];
        for (std::int64_t h = 0; h < s.heads; ++h) {
          const T* const k =
              read(dqkv.at(r * s.columns() + (s.heads + h) * d + c), m, buffer);
          for (std::int64_t i = 0; i < m; ++i) sum[i] += k[i];
        }
        store(dk_rope.at(r * rotated + c), m, sum);
      });
  });
}

namespace {

// The heads of q of a row, then those of k: body(first column among all rows, columns, place of the
// sum, 0 or 1).
template <class Body>
void for_widths(const HeadShape& s, Body&& body) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    body(r * s.columns(), s.heads * s.head_dim, 2 * r, 0);
    body(r * s.columns() + s.heads * s.head_dim, s.kv_heads * s.head_dim, 2 * r + 1, 1);
  }
}

template <class Body>
void for_values(const HeadShape& s, Body&& body) {
  const std::int64_t first = (s.heads + s.kv_heads) * s.head_dim;
  for (std::int64_t r = 0; r < s.rows; ++r)
    body(r * s.columns() + first, s.columns() - first);
}

template <class T>
T width_rstd(View sums, std::int64_t at, std::int64_t n, const WidthNorm& norm) {
  const T whole = static_cast<T>(n) * static_cast<T>(norm.parts);
  return T(1) / std::sqrt(get<T>(sums, at) / whole + static_cast<T>(norm.epsilon));
}

}  // namespace

void square_sums(View sums, View qkv, const HeadShape& s) {
  with_compute_type(qkv.type, [&]<class T>() {
    for_widths(s, [&](std::int64_t first, std::int64_t n, std::int64_t at, int) {
      put(sums, at, row_sum<T>(n, [](T v) { return v * v; }, qkv.at(first)));
    });
  });
}

void square_sums_gradient(View dqkv, View dsums, View qkv, const HeadShape& s, bool accumulate) {
  with_compute_type(qkv.type, [&]<class T>() {
    for_widths(s, [&](std::int64_t first, std::int64_t n, std::int64_t at, int) {
      const T d = T(2) * get<T>(dsums, at);
      const View to = dqkv.at(first), x = qkv.at(first);
      if (accumulate)
        elementwise<T>(n, to, [d](T v, T old) { return old + d * v; }, x, to);
      else
        elementwise<T>(n, to, [d](T v) { return d * v; }, x);
    });
  });
  if (accumulate) return;
  for_values(s, [&](std::int64_t first, std::int64_t n) { fill_zero(dqkv.at(first), n); });
}

void width_norm(View y, View qkv, View sums, View q_gamma, View k_gamma, const HeadShape& s,
                const WidthNorm& norm) {
  with_compute_type(qkv.type, [&]<class T>() {
    for_widths(s, [&](std::int64_t first, std::int64_t n, std::int64_t at, int keys) {
      const T rstd = width_rstd<T>(sums, at, n, norm);
      elementwise<T>(n, y.at(first), [rstd](T v, T g) { return v * rstd * g; }, qkv.at(first),
                     keys != 0 ? k_gamma : q_gamma);
    });
  });
  for_values(s, [&](std::int64_t first, std::int64_t n) { cast(y.at(first), qkv.at(first), n); });
}

void width_norm_gradient(View dqkv, View dsums, View dy, View qkv, View sums, View q_gamma,
                         View k_gamma, const HeadShape& s, const WidthNorm& norm) {
  with_compute_type(dy.type, [&]<class T>() {
    for_widths(s, [&](std::int64_t first, std::int64_t n, std::int64_t at, int keys) {
      const T rstd = width_rstd<T>(sums, at, n, norm);
      const T whole = static_cast<T>(n) * static_cast<T>(norm.parts);
      const View gamma = keys != 0 ? k_gamma : q_gamma, d = dy.at(first);
      const T dot =
          row_sum<T>(n, [](T a, T g, T v) { return a * g * v; }, d, gamma, qkv.at(first));
      put(dsums, at, T(-0.5) * rstd * rstd * rstd * dot / whole);
      elementwise<T>(n, dqkv.at(first), [rstd](T a, T g) { return a * g * rstd; }, d, gamma);
    });
  });
  for_values(s, [&](std::int64_t first, std::int64_t n) { cast(dqkv.at(first), dy.at(first), n); });
}

void width_norm_weight_gradient(View dq_gamma, View dk_gamma, View dy, View qkv, View sums,
                                const HeadShape& s, const WidthNorm& norm) {
  with_compute_type(dy.type, [&]<class T>() {
    for_widths(s, [&](std::int64_t first, std::int64_t n, std::int64_t at, int keys) {
      const T rstd = width_rstd<T>(sums, at, n, norm);
      const View to = keys != 0 ? dk_gamma : dq_gamma;
      elementwise<T>(n, to, [rstd](T d, T v, T old) { return old + d * (v * rstd); }, dy.at(first),
                     qkv.at(first), to);
    });
  });
}

}  // namespace exec::host
