// Attention with linear biases: slopes by hand, a naive softmax, gradients by central differences.
#include "exec/host/alibi.hpp"

#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

// softmax(q k^T / sqrt(d) + slope (key - query)) v, key <= query.
Values naive(Buffer& qkv, const AttentionShape& s, AlibiHeads heads) {
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
                             alibi_slope(heads.first + h, heads.all) * static_cast<double>(j - i)));
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
  for (const AlibiHeads heads : {AlibiHeads{0, 4}, AlibiHeads{4, 12}})
    for (const std::int64_t kv_heads : {4, 2})
      for (const std::int64_t seq : {1, 7, 70}) {
        const AttentionShape s{2, seq, 4, kv_heads, 3, true};
        Buffer qkv = random(r, f64, 2 * seq * s.qkv_columns()), out(f64, 2 * seq * 12),
               lse(f64, 2 * 4 * seq);
        Scratch scratch(alibi_attention_workspace(f64, s));
        alibi_attention(out, lse, qkv, s, heads, scratch);
        const Values expected = naive(qkv, s, heads);
        for (std::int64_t i = 0; i < out.size(); ++i)
          CHECK(out.at(i) == Approx(expected[static_cast<std::size_t>(i)]).epsilon(1e-12).margin(
                                 1e-12));
      }
}

TEST_CASE("gradients of attention with linear biases are those of central differences") {
  Random r(32);
  const AttentionShape s{2, 5, 4, GENERATE(4, 2), 3, true};
  const AlibiHeads heads{0, 4};
  Buffer qkv = random(r, f64, 2 * 5 * s.qkv_columns()), dout = random(r, f64, 2 * 5 * 12);
  Buffer out(f64, dout.size()), lse(f64, 2 * 4 * 5), dqkv(f64, qkv.size());
  Scratch scratch(alibi_attention_workspace(f64, s));
  alibi_attention(out, lse, qkv, s, heads, scratch);
  alibi_attention_input_gradient(dqkv, dout, qkv, out, lse, s, heads, scratch);
  check_gradient(qkv, dqkv, [&] {
    Buffer y(f64, dout.size()), sums(f64, lse.size());
    alibi_attention(y, sums, qkv, s, heads, scratch);
    return dot(y, dout);
  });
}
