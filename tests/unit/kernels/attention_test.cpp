#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

// The definition, O(seq^2) per head, in double.
struct Naive {
  Values out, lse;
};

Naive naive_attention(const Values& qkv, const AttentionShape& s) {
  const std::int64_t d = s.head_dim, ld = s.qkv_columns(), share = s.heads / s.kv_heads;
  Naive y{Values(static_cast<std::size_t>(s.samples * s.seq * s.heads * d)),
          Values(static_cast<std::size_t>(s.samples * s.seq * s.heads))};
  const auto at = [&](std::int64_t sample, std::int64_t row, std::int64_t column) {
    return qkv[static_cast<std::size_t>((sample * s.seq + row) * ld + column)];
  };
  for (std::int64_t i = 0; i < s.samples * s.heads * s.seq; ++i) {
    const std::int64_t row = i % s.seq, head = i / s.seq % s.heads, sample = i / s.seq / s.heads;
    const std::int64_t k0 = (s.heads + head / share) * d, v0 = k0 + s.kv_heads * d;
    Values p;
    double total = 0;
    for (std::int64_t j = 0; j < (s.causal ? row + 1 : s.seq); ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < d; ++c)
        score += at(sample, row, head * d + c) * at(sample, j, k0 + c);
      p.push_back(std::exp(score / std::sqrt(static_cast<double>(d))));
      total += p.back();
    }
    y.lse[static_cast<std::size_t>(i)] = std::log(total);
    for (std::int64_t c = 0; c < d; ++c) {
      double sum = 0;
      for (std::size_t j = 0; j < p.size(); ++j)
        sum += p[j] * at(sample, static_cast<std::int64_t>(j), v0 + c);
      y.out[static_cast<std::size_t>(((sample * s.seq + row) * s.heads + head) * d + c)] =
          sum / total;
    }
  }
  return y;
}

double worst_difference(const Values& a, const Values& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return a[i];
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  return worst;
}

}  // namespace

TEST_CASE("attention in blocks equals its definition") {
  Random r(31);
  const std::int64_t seq = GENERATE(1, 2, 63, 64, 65, 150);
  const bool causal = GENERATE(true, false);
  const DType type = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const AttentionShape s{2, seq, 4, 2, 5, causal};
  CAPTURE(seq, causal, core::name(type));
  Buffer qkv = random(r, type, s.samples * seq * s.qkv_columns(), 2.0);
  Buffer out(type, s.samples * seq * 20), lse(type == f64 ? f64 : f32, s.samples * seq * 4);
  attention(out, lse, qkv, s, Scratch(attention_workspace(type, s)));
  const Naive want = naive_attention(qkv.values(), s);
  // |v| <= 2 bounds |out|; scores are at most 20/sqrt(5), so e^score carries 9 + d roundings of the
  // arithmetic, sums of up to 150 terms in 16 lanes 10 more: 64 u is ample. Then one rounding.
  const double u = roundoff(type == f64 ? f64 : f32);
  CHECK(worst_difference(out.values(), want.out) <= 2 * (64 * u + 1.01 * roundoff(type)));
  CHECK(worst_difference(lse.values(), want.lse) <= 64 * u);
}

TEST_CASE("two tokens, one head of width one: by hand") {
  // Row 1: q = 1, k = (0, ln 3), v = (4, 8): weights 1/4 and 3/4, so 7, and lse = ln 4.
  Buffer qkv(f64, Values{9, 0, 4, 1, std::log(3.0), 8});
  const AttentionShape s{1, 2, 1, 1, 1};
  Buffer out(f64, 2), lse(f64, 2);
  attention(out, lse, qkv, s, Scratch(attention_workspace(f64, s)));
  CHECK(out.at(0) == 4.0);
  CHECK(out.at(1) == Approx(7.0).epsilon(1e-14));
  CHECK(lse.at(1) == Approx(std::log(4.0)).epsilon(1e-14));
}

TEST_CASE("large scores do not overflow attention") {
  Buffer qkv(f32, Values{60, 60, 1, 60, 60, 3});  // scores of 3600
  const AttentionShape s{1, 2, 1, 1, 1};
  Buffer out(f32, 2), lse(f32, 2);
  attention(out, lse, qkv, s, Scratch(attention_workspace(f32, s)));
  CHECK(out.values() == Values{1, 2});
  CHECK(lse.at(1) == Approx(3600 + std::log(2.0)));
}

TEST_CASE("the gradient of attention in f32 follows the one in f64 over several blocks") {
  Random r(32);
  const AttentionShape s{1, 150, 4, 2, 8};
  const std::int64_t columns = 32;
  Buffer qkv = random(r, f32, s.seq * s.qkv_columns()), dout = random(r, f32, s.seq * columns);
  Buffer exact_qkv = as(f64, qkv), exact_dout = as(f64, dout);
  const auto gradient = [&](Buffer& in, Buffer& g, DType t) {
    Buffer out(t, s.seq * columns), lse(t, s.seq * s.heads), dqkv(t, in.size());
    Scratch ws(attention_workspace(t, s));
    attention(out, lse, in, s, ws);
    attention_input_gradient(dqkv, g, in, out, lse, s, ws);
    return dqkv;
  };
  Buffer got = gradient(qkv, dout, f32), want = gradient(exact_qkv, exact_dout, f64);
  const Values g = got.values();
  // Sums of at most 150 x 2 terms below 3 with a relative error of about 40 u each.
  CHECK(worst_difference(g, want.values()) <= 300 * 3 * 40 * 0x1p-24);
}

namespace {

// Of queries that see blocks of keys: their own, in qkv, up to themselves, and of each other block
// the first so many. By definition, in double, a query at a time.
struct Seen {
  const AttentionShape& s;             // of a block
  Buffer &qkv, &dout;
  std::vector<Buffer>& keys;
  Values out{}, lse{}, dq{};
  std::vector<Values> d_keys{};        // of each block, the own one last

  std::int64_t d() const { return s.head_dim; }
  std::int64_t q() const { return s.heads * d(); }
  std::int64_t kv() const { return 2 * s.kv_heads * d(); }
  double key(std::size_t block, std::int64_t row, std::int64_t column) {
    return block == keys.size() ? qkv.at(row * s.qkv_columns() + q() + column)
                                : keys[block].at(row * kv() + column);
  }

  void run() {
    const std::int64_t rows = s.samples * s.seq;
    out.assign(static_cast<std::size_t>(rows * q()), 0);
    dq = out;
    lse.assign(static_cast<std::size_t>(rows * s.heads), 0);
    d_keys.assign(keys.size() + 1, Values(static_cast<std::size_t>(rows * kv())));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t head = 0; head < s.heads; ++head) query(row, head);
  }

  struct Key { std::size_t block; std::int64_t row; double p; };
  std::vector<Key> seen_by(std::int64_t row) const {
    const std::int64_t first = row / s.seq * s.seq, in_sample = row - first;
    std::vector<Key> all;
    for (std::size_t b = 0; b <= keys.size(); ++b) {
      const std::int64_t n = b == keys.size()      ? in_sample + 1
                             : in_sample < s.early ? s.early_keys
                                                   : s.late_keys;
      for (std::int64_t j = 0; j < n; ++j) all.push_back({b, first + j, 0});
    }
    return all;
  }

  void query(std::int64_t row, std::int64_t head) {
    const std::int64_t k = head / (s.heads / s.kv_heads) * d(), v = k + s.kv_heads * d();
    const std::int64_t at = row * q() + head * d();
    const double scale = 1 / std::sqrt(static_cast<double>(d()));
    const auto q_at = [&](std::int64_t c) {
      return qkv.at(row * s.qkv_columns() + head * d() + c);
    };
    std::vector<Key> seen = seen_by(row);
    double sum = 0, delta = 0;
    for (Key& one : seen) {
      double score = 0;
      for (std::int64_t c = 0; c < d(); ++c) score += q_at(c) * key(one.block, one.row, k + c);
      sum += one.p = std::exp(score * scale);
    }
    const std::int64_t sample = row / s.seq;
    lse[static_cast<std::size_t>((sample * s.heads + head) * s.seq + row % s.seq)] = std::log(sum);
    for (std::int64_t c = 0; c < d(); ++c) {
      double& y = out[static_cast<std::size_t>(at + c)];
      for (const Key& one : seen) y += one.p / sum * key(one.block, one.row, v + c);
      delta += y * dout.at(at + c);
    }
    for (const Key& one : seen) {
      double dp = 0;
      for (std::int64_t c = 0; c < d(); ++c)
        dp += dout.at(at + c) * key(one.block, one.row, v + c);
      const double p = one.p / sum, ds = p * (dp - delta) * scale;
      Values& d_key = d_keys[one.block];
      for (std::int64_t c = 0; c < d(); ++c) {
        dq[static_cast<std::size_t>(at + c)] += ds * key(one.block, one.row, k + c);
        d_key[static_cast<std::size_t>(one.row * kv() + k + c)] += ds * q_at(c);
        d_key[static_cast<std::size_t>(one.row * kv() + v + c)] += p * dout.at(at + c);
      }
    }
  }
};

}  // namespace

TEST_CASE("attention merged block by block equals attention over all keys it saw") {
  Random r(34);
  const DType type = GENERATE(DType::f64, DType::f32);
  const std::int64_t rows = GENERATE(2, 9, 130);
  CAPTURE(core::name(type), rows);
  const AttentionShape own{2, rows, 4, 2, 8};
  AttentionShape part = own;
  part.block = true;
  part.causal = false;
  part.keys = rows;
  part.early = rows / 2;
  part.early_keys = rows / 3;          // none, of two rows
  part.late_keys = rows;
  const std::int64_t n = own.samples * rows, q = 32, kv = 32;
  Buffer qkv = random(r, type, n * (q + kv)), dout = random(r, type, n * q);
  std::vector<Buffer> keys;
  for (int b = 0; b < 3; ++b) keys.push_back(random(r, type, n * kv));
  Buffer out(type, n * q), lse(type, n * 4), dq = zeros(type, n * q), d_keys(type, n * kv);
  Scratch ws(attention_workspace(type, part));
  attention(out, lse, qkv, own, ws);
  for (Buffer& k : keys) attention(out, lse, qkv, part, ws, k);

  Seen want{part, qkv, dout, keys};
  want.run();
  // Sums of at most 520 terms below 2 in size, whose e^score carries 9 + 8 roundings.
  const double bound = 520 * 2 * 17 * roundoff(type);
  CHECK(worst_difference(out.values(), want.out) <= bound);
  CHECK(worst_difference(lse.values(), want.lse) <= bound);
  for (std::size_t b = 0; b <= keys.size(); ++b) {
    const bool last = b == keys.size();
    attention_block_gradient({dq, q, d_keys, kv}, dout, qkv, out, lse, last ? own : part, ws,
                             last ? View{} : keys[b].view());
    CHECK(worst_difference(d_keys.values(), want.d_keys[b]) <= bound);
  }
  CHECK(worst_difference(dq.values(), want.dq) <= bound);
}

// What a rank has that holds some queries, in two runs, and the keys and values of all: results,
// query gradients and its part of the key gradients, which are added. To rounding: OpenBLAS picks
// its code by the shape of a product.
TEST_CASE("attention of a slice of the queries gives the rows that all queries give") {
  Random r(33);
  const DType type = GENERATE(DType::f64, DType::f32, DType::bf16);
  const std::int64_t samples = 2, seq = GENERATE(8, 60, 300), ranks = GENERATE(2, 4);
  CAPTURE(core::name(type), seq, ranks);
  const AttentionShape s{samples, seq, 4, 2, 8};
  const std::int64_t ld = s.qkv_columns(), kv = 32, q = ld - kv, own = seq / ranks;
  const DType statistic = type == f64 ? f64 : f32;
  Buffer qkv = random(r, type, samples * seq * ld), dout = random(r, type, samples * seq * q);
  Buffer out(type, samples * seq * q), lse(statistic, samples * seq * 4), dqkv(type, qkv.size());
  Scratch whole(attention_workspace(type, s));
  attention(out, lse, qkv, s, whole);
  attention_input_gradient(dqkv, dout, qkv, out, lse, s, whole);

  const double u = roundoff(statistic);
  Values sums(static_cast<std::size_t>(samples * seq * kv));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    AttentionShape part = s;
    part.seq = own;
    part.keys = seq;
    part.early = own / 2;
    part.early_at = rank * part.early;
    part.late_at = seq - (rank + 1) * (own - part.early);
    const auto row_of = [&](std::int64_t i) {  // among all samples' rows
      const std::int64_t row = i % own, late = row - part.early;
      return i / own * seq + (late < 0 ? part.early_at + row : part.late_at + late);
    };
    Buffer keys(type, samples * seq * kv), rows(type, samples * own * ld);
    Buffer drows(type, samples * own * ld), g(type, samples * own * q), y(type, g.size());
    Buffer l(statistic, samples * own * 4);
    for (std::int64_t i = 0; i < samples * seq; ++i)
      copy(keys.view().at(i * kv), qkv.view().at(i * ld + q), kv);
    for (std::int64_t i = 0; i < samples * own; ++i) {
      copy(rows.view().at(i * ld), qkv.view().at(row_of(i) * ld), ld);
      copy(g.view().at(i * q), dout.view().at(row_of(i) * q), q);
    }
    Scratch ws(attention_workspace(type, part));
    attention(y, l, rows, part, ws, keys);
    attention_input_gradient(drows, g, rows, y, l, part, ws, keys);
    double apart = 0;
    for (std::int64_t i = 0; i < samples * own; ++i)
      for (std::int64_t c = 0; c < q; ++c) {
        apart = std::max(apart, std::abs(y.at(i * q + c) - out.at(row_of(i) * q + c)));
        apart = std::max(apart, std::abs(drows.at(i * ld + c) - dqkv.at(row_of(i) * ld + c)));
      }
    // As in the tests above: |out| < 1, |dq| < 2, sums of 300 terms; then one rounding each, where
    // backward reads what forward rounded.
    CHECK(apart <= 2 * (64 * u + 4 * roundoff(type)));
    const Values added = keys.values();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += added[i];
  }
  double worst = 0;
  for (std::int64_t i = 0; i < samples * seq; ++i)
    for (std::int64_t c = 0; c < kv; ++c)
      worst = std::max(worst, std::abs(sums[static_cast<std::size_t>(i * kv + c)] -
                                       dqkv.at(i * ld + q + c)));
  // Sums of at most 300 x 2 terms below 2, and the rounding of each rank's part, below 8 in size.
  CHECK(worst <= 600 * 2 * u + (static_cast<double>(ranks) + 1) * 8 * roundoff(type));
}
