// A sample's bits do not depend on its batch (all kernels but the matrix products, where OpenBLAS
// chooses its code by the shape), and sums over rows may be cut anywhere.

#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

constexpr std::int64_t kSamples = 4, kSeq = 70, kWidth = 24, kRows = kSamples * kSeq;

// run(first_row, rows) fills part of the buffers; whole and sample by sample must agree.
template <class Run>
void check_batches(std::vector<Buffer*> outputs, Run run) {
  std::vector<Buffer> fresh, whole;
  for (Buffer* b : outputs) fresh.push_back(*b);
  run(0, kRows);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    whole.push_back(*outputs[i]);
    *outputs[i] = fresh[i];
  }
  for (std::int64_t sample = 0; sample < kSamples; ++sample) run(sample * kSeq, kSeq);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CAPTURE(i);
    CHECK(*outputs[i] == whole[i]);
    bool written = true;
    for (const double v : outputs[i]->values()) written = written && std::isfinite(v);
    CHECK(written);
  }
}

}  // namespace

TEST_CASE("layer norm and its gradients are the same in a batch of four and four of one") {
  Random r(71);
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f64);
  Buffer x = random(r, type, kRows * kWidth), dy = random(r, type, kRows * kWidth);
  Buffer gamma = random(r, type, kWidth), beta = random(r, type, kWidth);
  Buffer y(type, kRows * kWidth), mean(f32, kRows), rstd(f32, kRows), dx(type, kRows * kWidth);
  Buffer dgamma = random(r, f32, kWidth), dbeta = random(r, f32, kWidth);
  std::vector<Buffer*> outputs{&y, &mean, &rstd, &dx};
  // With f64 activations an f32 sum is rounded at each call: not divisible.
  if (type != DType::f64) outputs.insert(outputs.end(), {&dgamma, &dbeta});
  check_batches(outputs, [&](std::int64_t first, std::int64_t rows) {
    const auto at = [&](Buffer& b) { return b.view().at(first * kWidth); };
    const View m = mean.view().at(first), s = rstd.view().at(first);
    layer_norm(at(y), m, s, at(x), gamma, beta, rows, kWidth, 1e-5);
    layer_norm_input_gradient(at(dx), at(dy), at(x), gamma, m, s, rows, kWidth, false);
    layer_norm_weight_gradient(dgamma, dbeta, at(dy), at(x), m, s, rows, kWidth);
  });
}

TEST_CASE("attention and its gradient are the same in a batch of four and four of one") {
  Random r(72);
  const DType type = GENERATE(DType::f32, DType::bf16);
  AttentionShape s{kSamples, kSeq, 3, 3, 8, true};
  Buffer qkv = random(r, type, kRows * s.qkv_columns()), dout = random(r, type, kRows * kWidth);
  Buffer out(type, kRows * kWidth), lse(f32, kRows * 3), dqkv(type, qkv.size());
  check_batches({&out, &lse, &dqkv}, [&](std::int64_t first, std::int64_t rows) {
    s.samples = rows / kSeq;
    Scratch ws(attention_workspace(type, s));
    const auto at = [&](Buffer& b, std::int64_t width) { return b.view().at(first * width); };
    attention(at(out, kWidth), at(lse, 3), at(qkv, s.qkv_columns()), s, ws);
    attention_input_gradient(at(dqkv, s.qkv_columns()), at(dout, kWidth), at(qkv, s.qkv_columns()),
                             at(out, kWidth), at(lse, 3), s, ws);
  });
}

TEST_CASE("embeddings and bias gradients are the same in a batch of four and four of one") {
  Random r(73);
  Buffer wte = random(r, f32, 11 * kWidth), wpe = random(r, f32, kSeq * kWidth),
         dy = random(r, f32, kRows * kWidth);
  Buffer y(f32, kRows * kWidth), dwte = random(r, f32, wte.size()),
                                 dwpe = random(r, f32, wpe.size());
  Buffer db = random(r, f32, kWidth);
  Tokens tokens(r, kRows, 11);
  check_batches({&y, &dwte, &dwpe, &db}, [&](std::int64_t first, std::int64_t rows) {
    const View ids{tokens.ids.data() + first, DType::i32}, out = y.view().at(first * kWidth);
    const View d = dy.view().at(first * kWidth);
    token_embedding(out, wte, ids, rows, kWidth, {0, 11});
    position_embedding(out, out, wpe, rows, kWidth, kSeq);
    bias_add(out, out, wpe, rows, kWidth, kWidth);
    token_embedding_weight_gradient(dwte, d, ids, rows, kWidth, {0, 11});
    position_embedding_weight_gradient(dwpe, d, rows, kWidth, kSeq);
    bias_gradient(db, d, rows, kWidth, kWidth);
  });
}

TEST_CASE("losses and elementwise kernels are the same in a batch of four and four of one") {
  Random r(74);
  Buffer logits = random(r, f32, kRows * kWidth, 5.0), x = random(r, f32, kRows * kWidth, 3.0);
  Buffer y(f32, kRows * kWidth), dx(f32, kRows * kWidth), regression = x,
                                                          loss(f64, Values{0.5, 0.25});
  Tokens targets(r, kRows, kWidth - 1);
  auto* total = static_cast<double*>(loss.view().data);
  check_batches({&logits, &y, &dx, &regression, &loss}, [&](std::int64_t first, std::int64_t rows) {
    const LogitShape s{rows, kWidth, kWidth, 0, kWidth - 1};
    const std::int64_t n = rows * kWidth;
    const View ids{targets.ids.data() + first, DType::i32};
    const auto at = [&](Buffer& b) { return b.view().at(first * kWidth); };
    Buffer max(f32, rows), sums(f32, 2 * rows);
    gelu(at(y), at(x), n);
    gelu_gradient(at(dx), at(y), at(x), n);
    squared_error(total + 1, at(regression), at(y), n, 0.5);
    softmax_max(max, at(logits), s);
    softmax_sum(sums, at(logits), max, ids, s);
    cross_entropy(total, at(logits), max, sums, ids, s, 0.01);
  });
}

TEST_CASE("the same linear twice gives the same bits") {
  Random r(75);
  const LinearShape s{kRows, 33, kWidth, 33, kWidth};
  Buffer x = random(r, f32, kRows * kWidth), w = random(r, f32, 33 * kWidth);
  Buffer a(f32, kRows * 33), b(f32, kRows * 33);
  linear(a, x, w, {}, s, false, {});
  linear(b, x, w, {}, s, false, {});
  CHECK(a == b);
}
