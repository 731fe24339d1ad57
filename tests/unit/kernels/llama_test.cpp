// Kernels of Llama's blocks: gradients against central differences, values by hand, 16-bit twins.
#include "exec/host/work.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

TEST_CASE("gradients of the RMS norm are those of central differences") {
  Random r(GENERATE(1, 2));
  const std::int64_t rows = 3, n = GENERATE(1, 7, 33);
  const double epsilon = 1e-2;
  Buffer x = random(r, f64, rows * n), gamma = random(r, f64, n), dy = random(r, f64, rows * n);
  Buffer y(f64, rows * n), rstd(f64, rows), dx(f64, rows * n);
  const auto loss = [&] {
    Buffer out(f64, rows * n), s(f64, rows);
    rms_norm(out, s, x, gamma, rows, n, epsilon);
    return dot(out, dy);
  };
  rms_norm(y, rstd, x, gamma, rows, n, epsilon);
  rms_norm_input_gradient(dx, dy, x, gamma, rstd, rows, n, false);
  check_gradient(x, dx, loss);

  Buffer old = random(r, f64, rows * n), sum = old;
  rms_norm_input_gradient(sum, dy, x, gamma, rstd, rows, n, true);
  Buffer added = minus(sum, old);
  check_gradient(x, added, loss);

  Buffer before = random(r, f64, n), dgamma = before;
  rms_norm_weight_gradient(dgamma, dy, x, rstd, rows, n);
  Buffer got = minus(dgamma, before);
  check_gradient(gamma, got, loss);
}

TEST_CASE("RMS norm of 1 2 3 -4: mean square 30/4, by hand") {
  Buffer x(f64, Values{1, 2, 3, -4}), gamma(f64, Values{1, 1, 2, 1}), y(f64, 4), rstd(f64, 1);
  rms_norm(y, rstd, x, gamma, 1, 4, 8.5);  // 1 / sqrt(7.5 + 8.5) = 1/4
  CHECK(rstd.at(0) == 0.25);
  CHECK(y.values() == Values{0.25, 0.5, 1.5, -1.0});
}

TEST_CASE("gradients of the norms of heads are those of central differences") {
  Random r(GENERATE(3, 4));
  const HeadShape s{.rows = 3, .heads = 4, .kv_heads = 2, .head_dim = 5};
  const std::int64_t n = s.rows * s.columns();
  Buffer qkv = random(r, f64, n), q = random(r, f64, 5), k = random(r, f64, 5);
  Buffer dy = random(r, f64, n), y(f64, n), rstd(f64, s.rows * 6), dqkv(f64, n);
  const auto loss = [&] {
    Buffer out(f64, n), statistics(f64, s.rows * 6);
    qk_norm(out, statistics, qkv, q, k, s, 1e-3);
    return dot(out, dy);
  };
  qk_norm(y, rstd, qkv, q, k, s, 1e-3);
  for (std::int64_t row = 0; row < s.rows; ++row)  // values pass
    for (std::int64_t i = 30; i < s.columns(); ++i)
      CHECK(y.at(row * s.columns() + i) == qkv.at(row * s.columns() + i));
  qk_norm_input_gradient(dqkv, dy, qkv, q, k, rstd, s);
  check_gradient(qkv, dqkv, loss);
  Buffer dq = zeros(f64, 5), dk = zeros(f64, 5);
  qk_norm_weight_gradient(dq, dk, dy, qkv, rstd, s);
  check_gradient(q, dq, loss);
  check_gradient(k, dk, loss);
}

TEST_CASE("rotary positions turn pairs by position x base^(-2 i / rotated), by a naive loop") {
  Random r(5);
  const HeadShape s{.rows = 8, .heads = 2, .kv_heads = 1, .head_dim = 6};
  const Rotation rotation{.rotated = GENERATE(4, 6), .seq = 4, .base = GENERATE(1e4, 5e5)};
  const std::int64_t columns = s.columns(), half = rotation.rotated / 2;
  Buffer before = random(r, f64, s.rows * columns), after = before;
  rotate(after, s, rotation);
  Values expected = before.values();
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t head = 0; head < 3; ++head)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(row % 4) *
            std::pow(rotation.base, -2.0 * static_cast<double>(i) / static_cast<double>(2 * half));
        const std::int64_t a = row * columns + head * 6 + i;
        const double u = before.at(a), v = before.at(a + half);
        expected[static_cast<std::size_t>(a)] = u * std::cos(angle) - v * std::sin(angle);
        expected[static_cast<std::size_t>(a + half)] = u * std::sin(angle) + v * std::cos(angle);
      }
  for (std::int64_t i = 0; i < after.size(); ++i)
    CHECK(after.at(i) == Approx(expected[static_cast<std::size_t>(i)]).epsilon(1e-14));
}

TEST_CASE("the gradient of rotary positions turns back") {
  Random r(6);
  const HeadShape s{.rows = 6, .heads = 2, .kv_heads = 1, .head_dim = 4};
  Buffer x = random(r, f64, s.rows * s.columns()), dy = random(r, f64, x.size()), dx = dy;
  rotate(dx, s, {.rotated = 4, .seq = 3, .inverse = true});
  check_gradient(x, dx, [&] {
    Buffer y = x;
    rotate(y, s, {.rotated = 4, .seq = 3});
    return dot(y, dy);
  });
}

TEST_CASE("gradients of swiglu and relu are those of central differences") {
  Random r(7);
  const std::int64_t rows = 3, n = GENERATE(1, 13);
  Buffer x = random(r, f64, 2 * rows * n, 4.0), dy = random(r, f64, rows * n),
         dx(f64, 2 * rows * n);
  swiglu_gradient(dx, dy, x, rows, n);
  check_gradient(x, dx, [&] { Buffer y(f64, rows * n); swiglu(y, x, rows, n); return dot(y, dy); });

  Buffer z = random(r, f64, n), dz = random(r, f64, n), y(f64, n), g = dz;
  relu(y, z, n);
  relu_gradient(g, g, y, n);
  check_gradient(z, g, [&] { Buffer out(f64, n); relu(out, z, n); return dot(out, dz); });
}

TEST_CASE("swiglu(gate 1, up 3) = 3 / (1 + e^-1) = 2.1931757359") {
  Buffer x(f64, Values{1, 3}), y(f64, 1);
  swiglu(y, x, 1, 1);
  CHECK(y.at(0) == Approx(2.1931757358900147).epsilon(1e-14));
}

TEST_CASE("kernels of Llama on 16-bit types are their f32 twins, rounded") {
  Random r(8);
  const DType type = GENERATE(DType::bf16, DType::f16);
  const std::int64_t rows = 4, n = kChunk + 11;
  const HeadShape s{.rows = rows, .heads = 4, .kv_heads = 2, .head_dim = 6};
  const auto run = [&](bool half) {
    Random same(9);
    const auto operand = [&](std::int64_t size) {
      Buffer b = random(same, type, size);
      return half ? b : as(f32, b);
    };
    const DType stored = half ? type : f32;
    std::vector<Values> made;
    const auto keep = [&](Buffer b) { made.push_back(as(type, std::move(b)).values()); };
    Buffer x = operand(rows * n), gamma = operand(n), y(stored, rows * n), rstd(f32, rows);
    rms_norm(y, rstd, x, gamma, rows, n, 1e-5);
    keep(y);
    Buffer dx = operand(rows * n), dgamma = operand(n);
    rms_norm_input_gradient(dx, x, x, gamma, rstd, rows, n, true);
    rms_norm_weight_gradient(dgamma, y, x, rstd, rows, n);
    keep(dx);
    Buffer both = operand(2 * rows * n), out(stored, rows * n), d(stored, 2 * rows * n);
    swiglu(out, both, rows, n);
    swiglu_gradient(d, x, both, rows, n);
    keep(out);
    keep(d);
    Buffer qkv = operand(rows * s.columns());
    rotate(qkv, s, {.rotated = 6, .seq = rows});
    keep(qkv);
    return made;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("kernels do the FLOPs that the operator graphs of Llama and Qwen3 state") {
  models::ModelSpec spec;
  spec.name = "tiny";
  spec.family = GENERATE(models::Family::llama, models::Family::qwen3);
  spec.variants = models::variants_of(spec.family);
  spec.layers = 2;
  spec.hidden = 12;
  spec.heads = 6;
  spec.kv_heads = 3;
  spec.head_dim = 4;
  spec.ffn_hidden = 20;
  spec.vocab = 17;
  spec.positions = 8;
  const auto graph = models::build_graph(spec, {.seq_len = 6});
  REQUIRE(graph.ok());
  int compared = 0;
  for (const auto v : models::topological_order(graph->templates[0])) {
    const models::Operator& o = graph->templates[0].graph[v];
    CAPTURE(o.name);
    CHECK(computes(o));
    CHECK(work(models::ops::Kernel::forward, o, 1, {}).flops == o.flops_forward);
    if (o.kind != models::OpKind::add)
      CHECK(work(models::ops::Kernel::input_gradient, o, 1, {}).flops == o.flops_input_gradient);
    if (o.flops_weight_gradient.value() > 0)
      CHECK(work(models::ops::Kernel::weight_gradient, o, 1, {}).flops == o.flops_weight_gradient);
    ++compared;
  }
  CHECK(compared >= 11);
}
