// Attention with linear biases: slopes by hand, a naive softmax, gradients by central differences.
#include "exec/host/alibi.hpp"

#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

LinearBiases biases(std::int64_t first, std::int64_t all) { return {first, all, {}, {}}; }

// softmax(q k^T / sqrt(d) + slope (key - query)) v, key <= query.
Values naive(Buffer& qkv, const AttentionShape& s, LinearBiases heads) {
  const std::int64_t d = s.head_dim, columns = s.qkv_columns();
  Values out(static_cast<std::size_t>(s.samples * s.seq * s.heads * d), 0.0);
  for (std::int64_t i = 0; i < s.samples * s.seq; ++i)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t group = h / (s.heads / s.kv_heads), first = i / s.seq * s.seq;
      Values p;
      double sum = 0;
      for (std::int64_t j = first; j <= i; ++j) {
        double score = 0;
        for (std::int64_t e = 0; e < d; ++e)
          score += qkv.at(i * columns + h * d + e) *
                   qkv.at(j * columns + (s.heads + group) * d + e);
        p.push_back(std::exp(score / std::sqrt(static_cast<double>(d)) +
                             alibi_slope(heads.first_head + h, heads.all_heads) *
                                 static_cast<double>(j - i)));
        sum += p.back();
      }
      for (std::int64_t j = first; j <= i; ++j)
        for (std::int64_t e = 0; e < d; ++e)
          out[static_cast<std::size_t>((i * s.heads + h) * d + e)] +=
              p[static_cast<std::size_t>(j - first)] / sum *
              qkv.at(j * columns + (s.heads + s.kv_heads + group) * d + e);
    }
  return out;
}

}  // namespace

TEST_CASE(
    "slopes of 4 heads are 1/4, 1/16, 1/64, 1/256; of 3 the second and fourth, then the first") {
  CHECK(alibi_slope(0, 4) == 0.25);
  CHECK(alibi_slope(3, 4) == 1.0 / 256);
  CHECK(alibi_slope(0, 3) == 1.0 / 16);
  CHECK(alibi_slope(1, 3) == 1.0 / 256);
  CHECK(alibi_slope(2, 3) == 0.25);
  CHECK(alibi_slope(0, 1) == 1.0 / 256);
}

TEST_CASE("attention with linear biases is the naive softmax, whole and as some of the heads") {
  Random r(31);
  for (const LinearBiases& heads : {biases(0, 4), biases(4, 12)})
    for (const std::int64_t kv_heads : {4, 2})
      for (const std::int64_t seq : {1, 7, 70}) {
        AttentionShape s{2, seq, 4, kv_heads, 3, true};
        s.biases = heads;
        Buffer qkv = random(r, f64, 2 * seq * s.qkv_columns()), out(f64, 2 * seq * 12),
               lse(f64, 2 * 4 * seq);
        Scratch scratch(attention_workspace(f64, s));
        attention(out, lse, qkv, s, scratch);
        const Values expected = naive(qkv, s, heads);
        for (std::int64_t i = 0; i < out.size(); ++i)
          CHECK(out.at(i) == Approx(expected[static_cast<std::size_t>(i)]).epsilon(1e-12).margin(
                                 1e-12));
      }
}

TEST_CASE("gradients of attention with linear biases are those of central differences") {
  Random r(32);
  AttentionShape s{2, 5, 4, GENERATE(4, 2), 3, true};
  s.biases = biases(0, 4);
  Buffer qkv = random(r, f64, 2 * 5 * s.qkv_columns()), dout = random(r, f64, 2 * 5 * 12);
  Buffer out(f64, dout.size()), lse(f64, 2 * 4 * 5), dqkv(f64, qkv.size());
  Scratch scratch(attention_workspace(f64, s));
  attention(out, lse, qkv, s, scratch);
  attention_input_gradient(dqkv, dout, qkv, out, lse, s, scratch);
  check_gradient(qkv, dqkv, [&] {
    Buffer y(f64, dout.size()), sums(f64, lse.size());
    attention(y, sums, qkv, s, scratch);
    return dot(y, dout);
  });
}

TEST_CASE(
    "biases of a slice's queries, to keys of all rows or to two blocks, are of their places") {
  // 7 places; this slice has 0, 1 and 5, 6, the other has 2 and 3, 4: each an early and a late run.
  Random r(33);
  AttentionShape all{1, 7, 2, 1, 3, true};
  all.biases = biases(0, 2);
  const std::int64_t columns = all.qkv_columns(), d = 3;
  Buffer qkv = random(r, f64, 7 * columns);
  const Values expected = naive(qkv, all, all.biases);
  const Places own{2, 0, 5}, other{1, 2, 3};
  Buffer queries(f64, 4 * columns), keys(f64, 7 * 2 * d), block(f64, 3 * 2 * d);
  for (std::int64_t i = 0; i < 4; ++i)
    copy(View(queries).at(i * columns), View(qkv).at(own.of(i) * columns), columns);
  for (std::int64_t i = 0; i < 7; ++i)
    copy(View(keys).at(i * 2 * d), View(qkv).at(i * columns + 2 * d), 2 * d);
  for (std::int64_t i = 0; i < 3; ++i)
    copy(View(block).at(i * 2 * d), View(keys).at(other.of(i) * 2 * d), 2 * d);
  Buffer out(f64, 4 * 2 * d), lse(f64, 2 * 4);
  Scratch scratch(attention_workspace(f64, all));
  const auto check = [&] {
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t e = 0; e < 2 * d; ++e)
        CHECK(out.at(i * 2 * d + e) ==
              Approx(expected[static_cast<std::size_t>(own.of(i) * 2 * d + e)]).epsilon(1e-12));
  };
  AttentionShape s{1, 4, 2, 1, 3, true};
  s.biases = biases(0, 2);
  s.biases.queries = own;
  AttentionShape at_once = s, blocks = s;
  at_once.keys = 7;
  at_once.early = own.early;
  at_once.early_at = own.early_at;
  at_once.late_at = own.late_at;
  attention(out, lse, queries, at_once, scratch, keys);
  check();
  blocks.biases.keys = own;
  attention(out, lse, queries, blocks, scratch);
  blocks.biases.keys = other;
  blocks.block = true;
  blocks.causal = false;
  blocks.keys = 3;
  blocks.early = own.early;
  blocks.early_keys = 0;
  blocks.late_keys = 3;
  attention(out, lse, queries, blocks, scratch, block);
  check();
}
