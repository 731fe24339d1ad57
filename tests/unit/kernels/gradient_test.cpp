#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

TEST_CASE("gradients of the embeddings are those of central differences") {
  Random r(GENERATE(1, 2, 3));
  const std::int64_t rows = 14, h = 5, seq = 7, vocab = 6;
  const TableShard shard{2, 3};  // tokens 2, 3, 4 are local
  Tokens tokens(r, rows, vocab);
  Buffer wte = random(r, f64, shard.rows * h), wpe = random(r, f64, seq * h);
  Buffer dy = random(r, f64, rows * h);
  const auto loss = [&] {
    Buffer y(f64, rows * h);
    token_embedding(y, wte, tokens, rows, h, shard);
    position_embedding(y, y, wpe, rows, h, seq);
    return dot(y, dy);
  };
  Buffer before = random(r, f64, wte.size()), dwte = before;
  token_embedding_weight_gradient(dwte, dy, tokens, rows, h, shard);
  Buffer got = minus(dwte, before);
  check_gradient(wte, got, loss);

  Buffer before_p = random(r, f64, wpe.size()), dwpe = before_p;
  position_embedding_weight_gradient(dwpe, dy, rows, h, seq);
  Buffer got_p = minus(dwpe, before_p);
  check_gradient(wpe, got_p, loss);
}

TEST_CASE("a token of another shard embeds as zeros") {
  Values table{1, 2, 3, 4};  // tokens 5 and 6, width 2
  Buffer wte(f64, table), y(f64, 6);
  std::int32_t ids[] = {6, 4, 7};
  token_embedding(y, wte, {ids, DType::i32}, 3, 2, {5, 2});
  CHECK(y.values() == Values{3, 4, 0, 0, 0, 0});
}

TEST_CASE("gradients of layer norm are those of central differences") {
  Random r(GENERATE(4, 5));
  const std::int64_t rows = 3, n = GENERATE(1, 7, 33);
  const double epsilon = 1e-2;  // keeps n = 1 (variance 0) away from 1/0
  Buffer x = random(r, f64, rows * n), gamma = random(r, f64, n), beta = random(r, f64, n);
  Buffer dy = random(r, f64, rows * n), mean(f64, rows), rstd(f64, rows), y(f64, rows * n);
  const auto loss = [&] {
    Buffer m(f64, rows), s(f64, rows), out(f64, rows * n);
    layer_norm(out, m, s, x, gamma, beta, rows, n, epsilon);
    return dot(out, dy);
  };
  layer_norm(y, mean, rstd, x, gamma, beta, rows, n, epsilon);
  Buffer dx(f64, rows * n);
  layer_norm_input_gradient(dx, dy, x, gamma, mean, rstd, rows, n, false);
  check_gradient(x, dx, loss);

  Buffer old = random(r, f64, rows * n), sum = old;
  layer_norm_input_gradient(sum, dy, x, gamma, mean, rstd, rows, n, true);
  Buffer added = minus(sum, old);
  check_gradient(x, added, loss);

  Buffer dgamma = zeros(f64, n), dbeta = zeros(f64, n);
  layer_norm_weight_gradient(dgamma, dbeta, dy, x, mean, rstd, rows, n);
  check_gradient(gamma, dgamma, loss);
  check_gradient(beta, dbeta, loss);
}

TEST_CASE("layer norm of 1 2 3 6: mean 3, variance 14/4, by hand") {
  Buffer x(f64, Values{1, 2, 3, 6}), gamma(f64, Values{1, 1, 2, 1}), beta(f64, Values{0, 0, 5, 1});
  Buffer y(f64, 4), mean(f64, 1), rstd(f64, 1);
  layer_norm(y, mean, rstd, x, gamma, beta, 1, 4, 0.5);  // 1 / sqrt(3.5 + 0.5) = 1/2
  CHECK(mean.at(0) == 3.0);
  CHECK(rstd.at(0) == 0.5);
  CHECK(y.values() == Values{-1.0, -0.5, 5.0, 2.5});
}

TEST_CASE("gradients of linear and its bias are those of central differences") {
  Random r(GENERATE(6, 7));
  const LinearShape s{.rows = 5, .n = GENERATE(1, 4, 9), .k = GENERATE(1, 7), .ldy = 11, .ldx = 8};
  Buffer x = random(r, f64, s.rows * s.ldx), w = random(r, f64, s.n * s.k), b = random(r, f64, s.n);
  Buffer dy = random(r, f64, s.rows * s.ldy);
  Scratch ws(linear_workspace(f64, s));
  const auto loss = [&] {
    Buffer y = zeros(f64, s.rows * s.ldy);
    linear(y, x, w, b, s, false, ws);
    return dot(y, dy);
  };
  Buffer dx = zeros(f64, x.size()), dw = zeros(f64, w.size()), db = zeros(f64, s.n);
  linear_input_gradient(dx, dy, w, s, false, ws);
  linear_weight_gradient(dw, dy, x, s, ws);
  bias_gradient(db, dy, s.rows, s.n, s.ldy);
  check_gradient(x, dx, loss);
  check_gradient(w, dw, loss);
  check_gradient(b, db, loss);

  Buffer old = random(r, f64, x.size()), sum = old;
  linear_input_gradient(sum, dy, w, s, true, ws);
  Buffer added = minus(sum, old);
  check_gradient(x, added, loss);
}

TEST_CASE("gradients of the LoRA up projection are those of central differences") {
  Random r(GENERATE(8, 9));
  const std::int64_t offsets[] = {0, 8};  // groups 0 and 2 of three
  const LoraShape s{.rows = 5, .n = 4, .r = 3, .offsets = offsets, .ldy = 12, .scale = 0.25};
  Buffer base = random(r, f64, s.rows * s.ldy), u = random(r, f64, s.rows * 2 * s.r);
  Buffer b = random(r, f64, 2 * s.n * s.r), dy = random(r, f64, base.size());
  Scratch ws(lora_up_workspace(f64, s));
  const auto loss = [&] {
    Buffer y = base;
    lora_up(y, u, b, s, ws);
    return dot(y, dy);
  };
  Buffer du(f64, u.size()), before = random(r, f64, b.size()), db = before;
  lora_up_input_gradient(du, dy, b, s, ws);
  lora_up_weight_gradient(db, dy, u, s, ws);
  Buffer got = minus(db, before);
  check_gradient(u, du, loss);
  check_gradient(b, got, loss);
}

TEST_CASE("a group of LoRA leaves the columns of the other groups alone") {
  const std::int64_t offsets[] = {2};
  const LoraShape s{.rows = 1, .n = 2, .r = 1, .offsets = offsets, .ldy = 5, .scale = 2};
  Buffer y(f64, Values{1, 1, 1, 1, 1}), u(f64, Values{3}), b(f64, Values{1, 10});
  lora_up(y, u, b, s, Scratch(lora_up_workspace(f64, s)));
  CHECK(y.values() == Values{1, 1, 7, 61, 1});  // 1 + 2 x 3 x 1, 1 + 2 x 3 x 10
}

TEST_CASE("gradients of attention are those of central differences") {
  Random r(GENERATE(10, 11));
  const bool causal = GENERATE(true, false);
  const AttentionShape s{.samples = 2, .seq = 5, .heads = 4, .kv_heads = GENERATE(1, 2, 4),
                         .head_dim = 3, .causal = causal};
  const std::int64_t rows = s.samples * s.seq, columns = s.heads * s.head_dim;
  Buffer qkv = random(r, f64, rows * s.qkv_columns()), dout = random(r, f64, rows * columns);
  Scratch ws(attention_workspace(f64, s));
  const auto loss = [&] {
    Buffer y(f64, rows * columns), l(f64, rows * s.heads);
    attention(y, l, qkv, s, ws);
    return dot(y, dout);
  };
  Buffer out(f64, rows * columns), lse(f64, rows * s.heads), dqkv(f64, qkv.size());
  attention(out, lse, qkv, s, ws);
  attention_input_gradient(dqkv, dout, qkv, out, lse, s, ws);
  check_gradient(qkv, dqkv, loss);
}

TEST_CASE("gradients of gelu and the dense activations are those of central differences") {
  Random r(12);
  const std::int64_t n = 41;
  Buffer x = random(r, f64, n, 4.0), dy = random(r, f64, n);
  SECTION("gelu, in place of dy") {
    Buffer dx = dy;
    gelu_gradient(dx, dx, x, n);
    check_gradient(x, dx, [&] { Buffer y(f64, n); gelu(y, x, n); return dot(y, dy); });
  }
  SECTION("gelu by the error function") {
    constexpr auto exact = models::Activation::gelu_erf;
    Buffer dx = dy;
    gelu_gradient(dx, dx, x, n, exact);
    check_gradient(x, dx, [&] { Buffer y(f64, n); gelu(y, x, n, exact); return dot(y, dy); });
  }
  SECTION("activations of dense, from their value") {
    using models::Activation;
    const Activation act = GENERATE(Activation::identity, Activation::relu, Activation::tanh);
    Buffer y = x, dz = dy;
    activate(y, act, n);
    activate_gradient(dz, y, act, n);
    check_gradient(x, dz, [&] { Buffer z = x; activate(z, act, n); return dot(z, dy); });
  }
}

TEST_CASE("gelu(1) = 1/2 (1 + tanh(0.7978845608 x 1.044715)) = 0.8411919906") {
  Buffer x(f64, Values{1, 0, -30, 30}), y(f64, 4);
  gelu(y, x, 4);
  CHECK(y.at(0) == Approx(0.8411919906082768).epsilon(1e-14));
  CHECK(y.at(1) == 0.0);
  CHECK(std::abs(y.at(2)) < 1e-300);
  CHECK(y.at(3) == 30.0);
}

TEST_CASE("gelu by the error function of 1 = 1/2 (1 + erf(0.7071067812)) = 0.8413447461") {
  Buffer x(f64, Values{1, 0, -40, 40}), y(f64, 4);
  gelu(y, x, 4, models::Activation::gelu_erf);
  CHECK(y.at(0) == Approx(0.8413447460685429).epsilon(1e-14));
  CHECK(y.at(1) == 0.0);
  CHECK(std::abs(y.at(2)) < 1e-300);
  CHECK(y.at(3) == 40.0);
}

TEST_CASE("gradients of squared error are those of central differences") {
  Random r(13);
  const std::int64_t n = 19;
  Buffer y = random(r, f64, n), target = random(r, f64, n);
  Buffer gradient = y;
  double total = 2.0;
  squared_error(&total, gradient, target, n, 0.3);
  check_gradient(y, gradient, [&] {
    Buffer copy = y;
    double loss = 0;
    squared_error(&loss, copy, target, n, 0.3);
    return loss;
  });
  double fresh = 0;
  squared_error(&fresh, y, target, n, 0.3);
  CHECK(total == Approx(2.0 + fresh));
}
