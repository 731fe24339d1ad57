#include "exec/host/alibi.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "exec/host/panel.hpp"

namespace exec::host {
namespace {

// Heads one wider, of one sample.
AttentionShape widened(const AttentionShape& s) {
  AttentionShape wide = s;
  wide.samples = 1;
  wide.head_dim = s.head_dim + 1;
  return wide;
}

template <class T>
struct Panels {
  Panels(const AttentionShape& s, Workspace& ws) {
    const AttentionShape w = widened(s);
    const std::int64_t in = w.seq * w.qkv_columns(), result = w.seq * w.heads * w.head_dim;
    for (T** p : {&qkv, &dqkv}) *p = ws.take<T>(in);
    for (T** p : {&out, &dout}) *p = ws.take<T>(result);
  }
  static View view(T* panel) { return {panel, dtype_of<T>()}; }
  T *qkv, *dqkv, *out, *dout;
};

// wide[rows, heads, d + 1] = narrow[rows, heads, d], and `last` of a head in its last column.
template <class T, class Last>
void widen(T* wide, const View& narrow, std::int64_t rows, std::int64_t heads, std::int64_t d,
           Last&& last) {
  for (std::int64_t i = 0; i < rows * heads; ++i) {
    load(narrow.at(i * d), d, wide + i * (d + 1));
    wide[i * (d + 1) + d] = static_cast<T>(last(i / heads, i % heads));
  }
}
template <class T>
void narrow(const View& to, const T* wide, std::int64_t vectors, std::int64_t d) {
  for (std::int64_t i = 0; i < vectors; ++i) store(to.at(i * d), d, wide + i * (d + 1));
}

// The kernel divides by sqrt(d + 1), where 1 / sqrt(d) is meant.
template <class T>
T correction(const AttentionShape& s) {
  return static_cast<T>(std::sqrt(static_cast<double>(s.head_dim + 1) /
                                  static_cast<double>(s.head_dim)));
}

template <class T>
void scale_queries(T* wide, const AttentionShape& s) {
  const T by = correction<T>(s);
  const std::int64_t columns = widened(s).qkv_columns(), d = s.head_dim;
  for (std::int64_t row = 0; row < s.seq; ++row)
    for (std::int64_t head = 0; head < s.heads; ++head) {
      T* const q = wide + row * columns + head * (d + 1);
      for (std::int64_t i = 0; i < d; ++i) q[i] *= by;
    }
}

template <class T>
void widen_qkv(T* wide, const View& qkv, const AttentionShape& s,
               AlibiHeads heads) {
  const double root = std::sqrt(static_cast<double>(s.head_dim + 1));
  widen(wide, qkv, s.seq, s.heads + 2 * s.kv_heads, s.head_dim,
        [&](std::int64_t row, std::int64_t head) {
          if (head < s.heads)
            return static_cast<T>(alibi_slope(heads.first + head, heads.all) * root);
          return head < s.heads + s.kv_heads ? static_cast<T>(row - s.seq + 1) : T(0);
        });
  scale_queries(wide, s);
}

// Where a sample's rows begin.
struct Places { std::int64_t qkv, out, lse; };
Places places_of(const AttentionShape& s, std::int64_t sample) {
  return {sample * s.seq * s.qkv_columns(), sample * s.seq * s.heads * s.head_dim,
          sample * s.heads * s.seq};
}

}  // namespace

double alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto n = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(heads)));
  const std::int64_t even = n / 2;
  const std::int64_t i = n == heads   ? head + 1
                         : head < even ? 2 * (head + 1)
                                       : 2 * (head - even) + 1;
  return std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(n));
}

void alibi_attention(View out, View lse, View qkv, const AttentionShape& s, AlibiHeads heads,
                     Workspace ws) {
  PLANNER_CHECK(s.causal, "linear biases look back alone");
  with_compute_type(qkv.type, [&]<class T>() {
    Panels<T> p(s, ws);
    for (std::int64_t i = 0; i < s.samples; ++i) {
      const Places at = places_of(s, i);
      widen_qkv(p.qkv, qkv.at(at.qkv), s, heads);
      attention(p.view(p.out), lse.at(at.lse), p.view(p.qkv), widened(s), ws);
      narrow(out.at(at.out), p.out, s.seq * s.heads, s.head_dim);
    }
  });
}

void alibi_attention_input_gradient(View dqkv, View dout, View qkv, View out, View lse,
                                    const AttentionShape& s, AlibiHeads heads, Workspace ws) {
  const auto nothing = [](std::int64_t, std::int64_t) { return 0; };
  with_compute_type(qkv.type, [&]<class T>() {
    Panels<T> p(s, ws);
    const std::int64_t d = s.head_dim;
    for (std::int64_t i = 0; i < s.samples; ++i) {
      const Places at = places_of(s, i);
      widen_qkv(p.qkv, qkv.at(at.qkv), s, heads);
      widen(p.out, out.at(at.out), s.seq, s.heads, d, nothing);
      widen(p.dout, dout.at(at.out), s.seq, s.heads, d, nothing);
      attention_input_gradient(p.view(p.dqkv), p.view(p.dout), p.view(p.qkv), p.view(p.out),
                               lse.at(at.lse), widened(s), ws);
      scale_queries(p.dqkv, s);
      narrow(dqkv.at(at.qkv), p.dqkv, s.seq * (s.heads + 2 * s.kv_heads), d);
    }
  });
}

core::Bytes alibi_attention_workspace(core::DType activation, const AttentionShape& s) {
  const AttentionShape w = widened(s);
  const std::int64_t in = w.seq * w.qkv_columns(), result = w.seq * w.heads * w.head_dim;
  return panel_bytes(activation, in, in, result, result) + attention_workspace(activation, w);
}

}  // namespace exec::host
