// Kernels on 16-bit operands against their f32 twins. Where the arithmetic is the same and only
// loads and stores differ, the result must be the twin's, rounded: bit for bit.

#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

// A 16-bit buffer and its twin of the same values in f32.
struct Pair {
  Pair(Random& r, DType type, std::int64_t n, double size = 1.0)
      : half(random(r, type, n, size)), wide(as(f32, half)) {}
  Pair(DType type, std::int64_t n) : half(type, n), wide(f32, n) {}
  bool agree(DType type) { return half == as(type, wide); }
  Buffer half, wide;
};

}  // namespace

TEST_CASE("elementwise kernels on 16-bit types are their f32 twins, rounded") {
  Random r(51);
  const DType type = GENERATE(DType::bf16, DType::f16);
  const std::int64_t n = kChunk + 37;
  Pair x(r, type, n, 3.0), dy(r, type, n), y(type, n), g(type, n), s(type, n);
  for (const bool half : {true, false}) {
    const auto of = [&](Pair& p) -> Buffer& { return half ? p.half : p.wide; };
    gelu(of(y), of(x), n);
    gelu_gradient(of(g), of(dy), of(x), n);
    add(of(s), of(x), of(dy), n);
  }
  CHECK(y.agree(type));
  CHECK(g.agree(type));
  CHECK(s.agree(type));
}

TEST_CASE("layer norm on 16-bit types is its f32 twin, rounded") {
  Random r(52);
  const DType type = GENERATE(DType::bf16, DType::f16);
  const DType parameter = GENERATE(DType::bf16, DType::f32);
  const std::int64_t rows = 5, n = kChunk + 21;
  Pair x(r, type, rows * n), dy(r, type, rows * n), gamma(r, parameter, n), beta(r, parameter, n);
  Pair y(type, rows * n), dx(r, type, rows * n), dgamma(r, parameter, n), dbeta(r, parameter, n);
  Pair mean(f32, rows), rstd(f32, rows);
  for (const bool half : {true, false}) {
    const auto of = [&](Pair& p) -> Buffer& { return half ? p.half : p.wide; };
    layer_norm(of(y), of(mean), of(rstd), of(x), of(gamma), of(beta), rows, n, 1e-5);
    layer_norm_input_gradient(of(dx), of(dy), of(x), of(gamma), of(mean), of(rstd), rows, n, true);
    layer_norm_weight_gradient(of(dgamma), of(dbeta), of(dy), of(x), of(mean), of(rstd), rows, n);
  }
  CHECK(mean.half == mean.wide);
  CHECK(rstd.half == rstd.wide);
  CHECK(y.agree(type));
  CHECK(dx.agree(type));
  CHECK(dgamma.agree(parameter));
  CHECK(dbeta.agree(parameter));
}

TEST_CASE("the loss of 16-bit logits is that of their f32 twin, its gradient rounded") {
  Random r(53);
  const DType type = GENERATE(DType::bf16, DType::f16);
  const LogitShape s{.rows = 6, .columns = 70, .ld = 72, .first_column = 0, .vocab = 67};
  Pair logits(r, type, s.rows * s.ld, 5.0);
  Tokens targets(r, s.rows, s.vocab);
  double loss[2] = {0, 0};
  for (const bool half : {true, false}) {
    Buffer& l = half ? logits.half : logits.wide;
    Buffer max(f32, s.rows), sums(f32, 2 * s.rows);
    softmax_max(max, l, s);
    softmax_sum(sums, l, max, targets, s);
    cross_entropy(&loss[half], l, max, sums, targets, s, 0.125);
  }
  CHECK(loss[0] == loss[1]);
  CHECK(logits.agree(type));
}

TEST_CASE("embeddings on 16-bit types are their f32 twins, rounded") {
  Random r(54);
  const DType type = GENERATE(DType::bf16, DType::f16);
  const std::int64_t rows = 4, h = 9, vocab = 20;
  Pair wte(r, type, vocab * h), wpe(r, type, 2 * h), e(type, rows * h), y(type, rows * h);
  Pair dwpe(r, type, 2 * h);
  Tokens tokens(r, rows, vocab);
  for (const bool half : {true, false}) {
    const auto of = [&](Pair& p) -> Buffer& { return half ? p.half : p.wide; };
    token_embedding(of(e), of(wte), tokens, rows, h, {0, vocab});
    position_embedding(of(y), of(e), of(wpe), rows, h, 2);
    position_embedding_weight_gradient(of(dwpe), of(wte), 2, h, 2);
  }
  CHECK(e.agree(type));
  CHECK(y.agree(type));
  CHECK(dwpe.agree(type));
}
