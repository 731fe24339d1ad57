// Attention in blocks of query rows. The keys and values of one head are used in place, or
// converted once per head; products run on OpenBLAS with shapes that depend on the sequence alone,
// so a sample's bits do not depend on the batch.

#include <algorithm>

#include "exec/host/convert.hpp"
#include "exec/host/gemm.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/row_sum.hpp"
#include "exec/host/vector_math.hpp"

namespace exec::host {
namespace {

constexpr std::int64_t kQueryRows = 64;

template <class T>
struct Panel {
  const T* data;
  std::int64_t ld;
};

// rows x d elements of v with leading dimension ld, as T.
template <class T>
Panel<T> fetch(const View& v, std::int64_t ld, std::int64_t rows, std::int64_t d, T* buffer) {
  if (v.type == dtype_of<T>()) return {static_cast<const T*>(v.data), ld};
  for (std::int64_t r = 0; r < rows; ++r) load(v.at(r * ld), d, buffer + r * d);
  return {buffer, d};
}

template <class T>
void write(const View& v, std::int64_t ld, std::int64_t rows, std::int64_t d, const T* panel) {
  for (std::int64_t r = 0; r < rows; ++r) store(v.at(r * ld), d, panel + r * d);
}

// A block of query rows of one head: [first, first + rows), from a position on, against keys
// [from, from + keys).
struct Block {
  std::int64_t first, rows, position, from, keys;
};

// The first key that a query at this position sees.
std::int64_t first_key(const AttentionShape& s, std::int64_t position) {
  if (s.chunk > 0) return position / s.chunk * s.chunk;
  return s.window > 0 ? std::max<std::int64_t>(0, position + 1 - s.window) : 0;
}

// Of rows [begin, end), the first of which stands at `position`; keys: that all see, without a
// mask.
template <class Body>
void for_run(const AttentionShape& s, std::int64_t begin, std::int64_t end, std::int64_t position,
             std::int64_t keys, Body&& body) {
  for (std::int64_t i = begin; i < end && keys > 0; i += kQueryRows) {
    const std::int64_t rows = std::min(kQueryRows, end - i), at = position + i - begin;
    const std::int64_t from = first_key(s, at);
    body(Block{i, rows, at, from, (s.causal ? at + rows : keys) - from});
  }
}

template <class Body>
void for_blocks(const AttentionShape& s, Body&& body) {
  if (s.keys == 0) return for_run(s, 0, s.seq, 0, s.key_rows(), body);
  for_run(s, 0, s.early, s.early_at, s.block ? s.early_keys : s.keys, body);
  for_run(s, s.early, s.seq, s.late_at, s.block ? s.late_keys : s.keys, body);
}

// Keys of the block that its row r sees: [from, to).
struct Seen {
  std::int64_t from, to;
};
Seen visible(const AttentionShape& s, const Block& b, std::int64_t r) {
  if (!s.causal) return {0, b.keys};
  return {first_key(s, b.position + r) - b.from, b.position + r + 1 - b.from};
}

template <class T>
struct Scratch {
  Scratch(const AttentionShape& s, Workspace ws) {
    const std::int64_t wide = std::max(s.head_dim, s.values());
    const std::int64_t head = s.key_rows() * wide, block = kQueryRows * wide;
    for (T** p : {&k, &v, &dk, &dv}) *p = ws.take<T>(head);
    for (T** p : {&q, &out, &dout, &dq}) *p = ws.take<T>(block);
    for (T** p : {&scores, &dscores}) *p = ws.take<T>(kQueryRows * s.key_rows());
  }
  T *k, *v, *dk, *dv, *q, *out, *dout, *dq, *scores, *dscores;
};

template <class T>
T score_scale(const AttentionShape& s) {
  return static_cast<T>(s.scale != 0 ? s.scale
                                     : 1.0 / std::sqrt(static_cast<double>(s.head_dim)));
}

// The row becomes exp(row - max), 0 beyond what is seen; returns {max, sum}, a sink's part in both.
template <class T>
std::pair<T, T> exponentiate(T* row, const Seen& seen, std::int64_t keys, const View& sink) {
  T* const at = row + seen.from;
  const std::int64_t count = seen.to - seen.from;
  T max = at[0];
  for (std::int64_t i = 1; i < count; ++i) max = max_of(max, at[i]);
  if (sink) max = max_of(max, get<T>(sink, 0));
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) at[i] = exp_of(at[i] - max);
  LaneSum<T> sum;
  sum.add(count, [&](std::int64_t i) { return at[i]; });
  std::fill(row, at, T(0));
  std::fill(row + seen.to, row + keys, T(0));
  return {max, sink ? sum.value() + exp_of(get<T>(sink, 0) - max) : sum.value()};
}

// One head of one sample: where its rows start.
struct Head {
  View q, k, v, out, lse, scores, sink;
  std::int64_t ld, key_ld;
  double slope;                        // of linear biases; 0: none
};

// keys: apart from qkv, or absent; scores: kept, or absent.
Head locate(const AttentionShape& s, std::int64_t sample, std::int64_t head, View qkv, View keys,
            View out, View lse, View scores = {}, View sinks = {}) {
  const std::int64_t d = s.head_dim, dv = s.values(), ld = s.qkv_columns();
  const std::int64_t group = head / (s.heads / s.kv_heads);
  const std::int64_t key_ld = keys ? s.key_columns() : ld;
  const LinearBiases& biases = s.biases;
  const View row = qkv.at(sample * s.seq * ld);
  const View key = keys ? keys.at(sample * s.keys * key_ld) : row.at(s.heads * d);
  return {row.at(head * d),
          key.at(group * d),
          key.at(s.kv_heads * d + group * dv),
          out.at(sample * s.seq * s.heads * dv + head * dv),
          lse.at((sample * s.heads + head) * s.seq),
          scores ? scores.at((sample * s.heads + head) * s.seq * s.key_rows()) : View{},
          sinks ? sinks.at(head) : View{},
          ld,
          key_ld,
          biases.all_heads > 0 ? alibi_slope(biases.first_head + head, biases.all_heads) : 0};
}

// row[i] += slope (distance + i). T holds whole numbers up to 2^24.
template <class T>
void add_biases(T* row, std::int64_t keys, T slope, std::int64_t distance) {
  const auto first = static_cast<T>(distance);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < keys; ++i)
    row[i] += slope * (first + static_cast<T>(static_cast<std::int32_t>(i)));
}

// score = cap tanh(score / cap) [gemma2]
template <class T>
void cap_scores(T cap, std::int64_t n, T* scores) {
  for (std::int64_t i = 0; i < n; ++i) scores[i] = cap * std::tanh(scores[i] / cap);
}

// scores = scale q k^T, capped, and linear biases
template <class T>
void score_block(const AttentionShape& s, const Block& b, const Head& h, Panel<T> q, Panel<T> k,
                 T* scores) {
  gemm(false, true, b.rows, b.keys, s.head_dim, score_scale<T>(s), q.data, q.ld,
       k.data + b.from * k.ld, k.ld, T(0), scores, b.keys);
  if (s.soft_cap > 0) cap_scores(static_cast<T>(s.soft_cap), b.rows * b.keys, scores);
  if (h.slope == 0) return;
  const Places& keys = s.biases.keys;
  const std::int64_t early = std::min(keys.early, b.keys);
  for (std::int64_t r = 0; r < b.rows; ++r) {
    T* const row = scores + r * b.keys;
    const std::int64_t query = s.biases.queries.of(b.first + r);
    add_biases(row, early, static_cast<T>(h.slope), keys.early_at - query);
    add_biases(row + early, b.keys - early, static_cast<T>(h.slope), keys.late_at - query);
  }
}

// Probabilities of row r of the block, rounded as they are stored. `to`: the head's first row.
template <class T>
void keep_row(const AttentionShape& s, const Block& b, std::int64_t r, T sum, T* row,
              const View& to) {
  for (std::int64_t i = 0; i < b.keys; ++i) row[i] /= sum;
  const View at = to.at((b.first + r) * s.key_rows() + b.from);
  store(at, b.keys, row);
  load(at, b.keys, row);
}

// y of these keys into that of others, which has the log-sum-exp `lse`; returns that of both.
template <class T>
T merge_row(const AttentionShape& s, T lse, T own, View other, T* y) {
  const T most = max_of(lse, own);
  const T both = most + std::log(std::exp(lse - most) + std::exp(own - most));
  const T keep = std::exp(lse - both), add = std::exp(own - both);
  for (std::int64_t i = 0; i < s.values(); ++i) y[i] = get<T>(other, i) * keep + y[i] * add;
  return both;
}

template <class T>
void forward_block(const AttentionShape& s, const Block& b, const Head& h, Panel<T> q, Panel<T> k,
                   Panel<T> v, Scratch<T>& w) {
  const View &out = h.out, &lse = h.lse;
  const std::int64_t d = s.values();
  T sums[kQueryRows], lses[kQueryRows];
  score_block(s, b, h, q, k, w.scores);
  for (std::int64_t r = 0; r < b.rows; ++r) {
    T* const row = w.scores + r * b.keys;
    const auto [max, sum] = exponentiate(row, visible(s, b, r), b.keys, h.sink);
    lses[r] = max + std::log(sum);
    sums[r] = h.scores ? T(1) : sum;
    if (h.scores) keep_row(s, b, r, sum, row, h.scores);
  }
  gemm(false, false, b.rows, d, b.keys, T(1), w.scores, b.keys, v.data + b.from * v.ld, v.ld, T(0),
       w.out, d);
  for (std::int64_t r = 0; r < b.rows; ++r) {
    T* const y = w.out + r * d;
    for (std::int64_t i = 0; i < d; ++i) y[i] /= sums[r];
    const std::int64_t row = b.first + r;
    if (s.block)
      lses[r] = merge_row(s, get<T>(lse, row), lses[r], out.at(row * s.heads * d), y);
    put(lse, row, lses[r]);
  }
  write(out.at(b.first * s.heads * d), s.heads * d, b.rows, d, w.out);
}

// Scores become probabilities from the saved log sum exp, unless they are; dscores become their
// gradient: ds = scale p (dp - sum(dout out)) [flash2] section 3.1.2, times 1 - (score / cap)^2
// where scores are capped; of probabilities that were stored, score = lse + log p.
template <class T>
void softmax_gradient(const AttentionShape& s, const Block& b, Panel<T> out, Panel<T> dout,
                      const Head& h, Scratch<T>& w) {
  const bool kept = static_cast<bool>(h.scores);
  const T factor = score_scale<T>(s), cap = static_cast<T>(s.soft_cap);
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const T* const o = out.data + r * out.ld;
    const T* const g = dout.data + r * dout.ld;
    LaneSum<T> dot;
    dot.add(s.values(), [&](std::int64_t i) { return o[i] * g[i]; });
    const T delta = dot.value(), log_sum = get<T>(h.lse, b.first + r);
    T* const p = w.scores + r * b.keys;
    T* const ds = w.dscores + r * b.keys;
    const auto [from, to] = visible(s, b, r);
    for (std::int64_t i = from; i < to && cap > 0; ++i) {
      const T score = (kept ? log_sum + std::log(p[i]) : p[i]) / cap;
      ds[i] = delta + (p[i] == 0 && kept ? T(0) : (ds[i] - delta) * (T(1) - score * score));
    }
    if (!kept) {
#pragma GCC ivdep
      for (std::int64_t i = from; i < to; ++i) p[i] = exp_of(p[i] - log_sum);
    }
#pragma GCC ivdep
    for (std::int64_t i = from; i < to; ++i) ds[i] = p[i] * (ds[i] - delta) * factor;
    for (T* const row : {p, ds}) {
      std::fill(row, row + from, T(0));
      std::fill(row + to, row + b.keys, T(0));
    }
  }
}

template <class T>
void backward_block(const AttentionShape& s, const Block& b, const Head& h, Panel<T> k, Panel<T> v,
                    const View& dout_head, const View& dq_head, std::int64_t dq_columns,
                    bool adds, Scratch<T>& w) {
  const std::int64_t d = s.head_dim, dv = s.values(), ldo = s.heads * dv;
  const Panel<T> q = fetch(h.q.at(b.first * h.ld), h.ld, b.rows, d, w.q);
  const Panel<T> out = fetch(h.out.at(b.first * ldo), ldo, b.rows, dv, w.out);
  const Panel<T> dout = fetch(dout_head.at(b.first * ldo), ldo, b.rows, dv, w.dout);
  if (!h.scores) score_block(s, b, h, q, k, w.scores);
  for (std::int64_t r = 0; r < b.rows && h.scores; ++r)
    load(h.scores.at((b.first + r) * s.key_rows() + b.from), b.keys, w.scores + r * b.keys);
  gemm(false, true, b.rows, b.keys, dv, T(1), dout.data, dout.ld, v.data + b.from * v.ld, v.ld,
       T(0), w.dscores, b.keys);
  softmax_gradient(s, b, out, dout, h, w);
  gemm(true, false, b.keys, dv, b.rows, T(1), w.scores, b.keys, dout.data, dout.ld, T(1),
       w.dv + b.from * dv, dv);
  gemm(true, false, b.keys, d, b.rows, T(1), w.dscores, b.keys, q.data, q.ld, T(1),
       w.dk + b.from * d, d);
  gemm(false, false, b.rows, d, b.keys, T(1), w.dscores, b.keys, k.data + b.from * k.ld, k.ld,
       T(0), w.dq, d);
  const View dq = dq_head.at(b.first * dq_columns);
  for (std::int64_t r = 0; r < b.rows && adds; ++r) {
    load(dq.at(r * dq_columns), d, w.q);
    for (std::int64_t i = 0; i < d; ++i) w.dq[r * d + i] += w.q[i];
  }
  write(dq, dq_columns, b.rows, d, w.dq);
}

// What the backward pass reads, and where it leaves what it makes.
struct Pass {
  View dout, qkv, keys, out, lse, scores;
  BlockGradients to;
  bool adds = false;                   // to dq
};

// All query heads that share the key head `group` of one sample.
template <class T>
void backward_group(const AttentionShape& s, std::int64_t sample, std::int64_t group,
                    const Pass& p, Scratch<T>& w) {
  const std::int64_t d = s.head_dim, dv = s.values(), queries = s.heads / s.kv_heads;
  const std::int64_t rows = s.key_rows();
  std::fill_n(w.dk, rows * d, T(0));
  std::fill_n(w.dv, rows * dv, T(0));
  const Head first = locate(s, sample, group * queries, p.qkv, p.keys, p.out, p.lse);
  const Panel<T> k = fetch(first.k, first.key_ld, rows, d, w.k);
  const Panel<T> v = fetch(first.v, first.key_ld, rows, dv, w.v);
  for (std::int64_t head = group * queries; head < (group + 1) * queries; ++head) {
    const Head h = locate(s, sample, head, p.qkv, p.keys, p.out, p.lse, p.scores);
    const View dout = p.dout.at(sample * s.seq * s.heads * dv + head * dv);
    const View dq = p.to.dq.at(sample * s.seq * p.to.dq_columns + head * d);
    for_blocks(s, [&](const Block& b) {
      backward_block(s, b, h, k, v, dout, dq, p.to.dq_columns, p.adds, w);
    });
  }
  // Over the keys where they lie apart and are given back: nothing reads them any more.
  const View dk = p.to.d_keys.at(sample * rows * p.to.key_columns + group * d);
  write(dk, p.to.key_columns, rows, d, w.dk);
  const View dv_rows = p.to.d_keys.at(sample * rows * p.to.key_columns + s.kv_heads * d);
  write(dv_rows.at(group * dv), p.to.key_columns, rows, dv, w.dv);
}

// What the kernel takes for granted.
void check_shape(const AttentionShape& s, const View& keys) {
  PLANNER_CHECK(s.heads % s.kv_heads == 0, "query heads share key heads evenly");
  PLANNER_CHECK(static_cast<bool>(keys) == (s.keys > 0), "keys of a slice lie apart from it");
  const bool within = s.window > 0 || s.chunk > 0;
  PLANNER_CHECK(!within || (s.causal && s.biases.all_heads == 0),
                "windows and chunks are of causal attention without biases");
}

void backward(const AttentionShape& s, const Pass& p, Workspace ws) {
  check_shape(s, p.keys);
  with_compute_type(p.qkv.type, [&]<class T>() {
    Scratch<T> w(s, ws);
    for (std::int64_t i = 0; i < s.samples * s.kv_heads; ++i)
      backward_group(s, i / s.kv_heads, i % s.kv_heads, p, w);
  });
}

}  // namespace

void attention(View out, View lse, View qkv, const AttentionShape& s, Workspace ws, View keys,
               View scores, View sinks) {
  check_shape(s, keys);
  with_compute_type(qkv.type, [&]<class T>() {
    Scratch<T> w(s, ws);
    for (std::int64_t i = 0; i < s.samples * s.heads; ++i) {
      const Head h = locate(s, i / s.heads, i % s.heads, qkv, keys, out, lse, scores, sinks);
      const Panel<T> k = fetch(h.k, h.key_ld, s.key_rows(), s.head_dim, w.k);
      const Panel<T> v = fetch(h.v, h.key_ld, s.key_rows(), s.values(), w.v);
      for_blocks(s, [&](const Block& b) {
        const Panel<T> q = fetch(h.q.at(b.first * h.ld), h.ld, b.rows, s.head_dim, w.q);
        forward_block(s, b, h, q, k, v, w);
      });
    }
  });
}

void attention_input_gradient(View dqkv, View dout, View qkv, View out, View lse,
                              const AttentionShape& s, Workspace ws, View keys, View scores) {
  const std::int64_t columns = s.qkv_columns(), q = s.heads * s.head_dim;
  const BlockGradients to{dqkv, columns, keys ? keys : dqkv.at(q), keys ? columns - q : columns};
  backward(s, {dout, qkv, keys, out, lse, scores, to}, ws);
}

void attention_block_gradient(const BlockGradients& to, View dout, View qkv, View out, View lse,
                              const AttentionShape& s, Workspace ws, View keys) {
  backward(s, {dout, qkv, keys, out, lse, {}, to, true}, ws);
}

void attention_sink_gradient(View dsinks, View dout, View out, View lse, View sinks,
                             const AttentionShape& s) {
  const std::int64_t dv = s.values();
  with_compute_type(dout.type, [&]<class T>() {
    for (std::int64_t i = 0; i < s.samples * s.heads; ++i) {
      const std::int64_t sample = i / s.heads, head = i % s.heads;
      T sum = get<T>(dsinks, head);
      for (std::int64_t r = 0; r < s.seq; ++r) {
        const std::int64_t at = ((sample * s.seq + r) * s.heads + head) * dv;
        const T delta = row_sum<T>(dv, [](T a, T b) { return a * b; }, dout.at(at), out.at(at));
        sum -= exp_of(get<T>(sinks, head) - get<T>(lse, i * s.seq + r)) * delta;
      }
      put(dsinks, head, sum);
    }
  });
}

core::Bytes attention_workspace(core::DType activation, const AttentionShape& s) {
  const std::int64_t size = activation == core::DType::f64 ? 8 : 4;
  const std::int64_t wide = std::max(s.head_dim, s.values());
  const std::int64_t elements =
      4 * s.key_rows() * wide + 4 * kQueryRows * wide + 2 * kQueryRows * s.key_rows();
  return core::Bytes(elements * size + 10 * 63);
}

}  // namespace exec::host
