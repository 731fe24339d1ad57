// The kernels of a transformer on an emulated grid against exec/host.
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
namespace host = exec::host;

namespace {

// A library may take the hardware's tanh, off by 2^-11 at most (PTX ISA, tanh.approx.f32).
constexpr double kTanh = 0x1p-11;

void check_by(double more, const char* what, Buffer& found, Buffer& expected, DType type) {
  INFO(what << " " << core::name(type));
  CHECK(difference(found, expected) <= bound(type) + more);
}

}  // namespace

TEST_CASE("layer norms, alone and behind a sum, are their host twins") {
  Random r(21);
  for (const DType t : kTypes)
    for (const std::int64_t n : {3, 24, 257, 768, 1600, 8192}) {
      const std::int64_t rows = 13;
      const DType s = statistic(t);
      Device device;
      const cuda::Queue q = device.queue();
      Buffer x = random(r, t, rows * n), gamma = random(r, t, n), beta = random(r, t, n);
      Buffer y(t, rows * n), mean(s, rows), rstd(s, rows);
      Buffer y2(t, rows * n), mean2(s, rows), rstd2(s, rows);
      cuda::layer_norm(q, y, mean, rstd, x, gamma, beta, rows, n, 1e-5);
      device.wait();
      host::layer_norm(y2, mean2, rstd2, x, gamma, beta, rows, n, 1e-5);
      check_close("layer_norm", y, y2, t);
      check_close("mean", mean, mean2, s);
      check_close("rstd", rstd, rstd2, s);

      Buffer b = random(r, t, rows * n), sum(t, rows * n), sum2(t, rows * n);
      cuda::add_layer_norm(q, sum, x, b, y, mean, rstd, gamma, beta, rows, n, 1e-5);
      device.wait();
      host::add(sum2, x, b, rows * n);
      host::layer_norm(y2, mean2, rstd2, sum2, gamma, beta, rows, n, 1e-5);
      CHECK(sum == sum2);
      check_close("add_layer_norm", y, y2, t);

      for (const bool accumulate : {false, true})
        for (const DType g : {t, s}) {
          Buffer dy = random(r, t, rows * n);
          Buffer dx = accumulate ? random(r, t, rows * n) : Buffer(t, rows * n), dx2 = dx;
          Buffer dg = random(r, g, n), db = random(r, g, n), dg2 = dg, db2 = db;
          cuda::layer_norm_gradients(q, dx, dg, db, dy, x, gamma, mean, rstd, rows, n, accumulate);
          device.wait();
          host::layer_norm_input_gradient(dx2, dy, x, gamma, mean, rstd, rows, n, accumulate);
          host::layer_norm_weight_gradient(dg2, db2, dy, x, mean, rstd, rows, n);
          check_close("layer_norm_input_gradient", dx, dx2, t);
          check_close("d_gamma", dg, dg2, g);
          check_close("d_beta", db, db2, g);
        }
    }
}

TEST_CASE("root mean square norms of rows and of heads are their host twins") {
  Random r(22);
  for (const DType t : kTypes) {
    const std::int64_t rows = 9, n = 72;
    const DType s = statistic(t);
    Device device;
    const cuda::Queue q = device.queue();
    Buffer x = random(r, t, rows * n), dy = random(r, t, rows * n), gamma = random(r, t, n);
    Buffer y(t, rows * n), rstd(s, rows), y2 = y, rstd2 = rstd;
    cuda::rms_norm(q, y, rstd, x, gamma, rows, n, 1e-5);
    device.wait();
    host::rms_norm(y2, rstd2, x, gamma, rows, n, 1e-5);
    check_close("rms_norm", y, y2, t);
    Buffer dx(t, rows * n), dx2 = dx, dg = random(r, s, n), dg2 = dg;
    cuda::rms_norm_gradients(q, dx, dg, dy, x, gamma, rstd, rows, n, false);
    device.wait();
    host::rms_norm_input_gradient(dx2, dy, x, gamma, rstd, rows, n, false);
    host::rms_norm_weight_gradient(dg2, dy, x, rstd, rows, n);
    check_close("rms_norm_input_gradient", dx, dx2, t);
    check_close("rms d_gamma", dg, dg2, s);

    const host::HeadShape heads{5, 6, 2, 12};
    const std::int64_t size = heads.rows * heads.columns(), normed = heads.rows * 8;
    Buffer qkv = random(r, t, size), d = random(r, t, size);
    Buffer gq = random(r, t, 12), gk = random(r, t, 12);
    Buffer z(t, size), z2 = z, hs(s, normed), hs2 = hs, dz(t, size), dz2 = dz;
    Buffer dq = random(r, s, 12), dk = random(r, s, 12), dq2 = dq, dk2 = dk;
    cuda::qk_norm(q, z, hs, qkv, gq, gk, heads, 1e-5);
    device.wait();
    host::qk_norm(z2, hs2, qkv, gq, gk, heads, 1e-5);
    check_close("qk_norm", z, z2, t);
    cuda::qk_norm_input_gradient(q, dz, d, qkv, gq, gk, hs, heads);
    cuda::qk_norm_weight_gradient(q, dq, dk, d, qkv, hs, heads);
    device.wait();
    host::qk_norm_input_gradient(dz2, d, qkv, gq, gk, hs, heads);
    host::qk_norm_weight_gradient(dq2, dk2, d, qkv, hs, heads);
    check_close("qk_norm_input_gradient", dz, dz2, t);
    check_close("d_q_gamma", dq, dq2, s);
    check_close("d_k_gamma", dk, dk2, s);

    Buffer turned = qkv, turned2 = qkv;
    for (const bool inverse : {false, true}) {
      cuda::rotate(q, turned, heads, {8, 3, inverse, {2, 1, 7}, 5e5});
      device.wait();
      host::rotate(turned2, heads, {8, 3, inverse, {2, 1, 7}, 5e5});
      check_close("rotate", turned, turned2, t);
    }
  }
}

TEST_CASE("embeddings and their deterministic gradients are their host twins") {
  Random r(23);
  for (const DType t : kTypes)
    for (const auto& [h, vocab] : {std::pair{6, 50}, {136, 50}, {8, 3}}) {
      const std::int64_t rows = 300, seq = 60;
      const bool few = vocab < 20;     // tokens of many rows, which lie in several pieces
      const host::TableShard shard = few ? host::TableShard{1, 2} : host::TableShard{17, 20};
      Device device;
      const cuda::Queue q = device.queue();
      Tokens tokens(r, rows, vocab);
      Buffer table = random(r, t, shard.rows * h), y(t, rows * h), y2 = y;
      Buffer wpe = random(r, t, seq * h);
      cuda::token_embedding(q, y, table, tokens, rows, h, shard);
      device.wait();
      host::token_embedding(y2, table, tokens, rows, h, shard);
      CHECK(y == y2);
      cuda::position_embedding(q, y, y, wpe, rows, h, seq, {seq, 0, 0});
      device.wait();
      host::position_embedding(y2, y2, wpe, rows, h, seq);
      CHECK(y == y2);
      for (const DType g : {t, statistic(t)}) {
        Buffer dy = random(r, t, rows * h);
        Buffer dw = random(r, g, shard.rows * h), dw2 = dw, dp = random(r, g, seq * h), dp2 = dp;
        cuda::token_embedding_weight_gradient(q, dw, dy, tokens, rows, h, shard);
        cuda::position_embedding_weight_gradient(q, dp, dy, rows, h, seq, {seq, 0, 0});
        device.wait();
        // The host rounds a 16-bit sum at every row: f32 sums are what both mean.
        Buffer wide = as(statistic(t), dw2), wide_p = as(statistic(t), dp2);
        host::token_embedding_weight_gradient(wide, dy, tokens, rows, h, shard);
        host::position_embedding_weight_gradient(wide_p, dy, rows, h, seq);
        check_close("d_wte", dw, wide, g);
        check_close("d_wpe", dp, wide_p, g);
      }
    }
}

TEST_CASE("biases and linear layers are their host twins") {
  Random r(24);
  for (const DType t : kTypes) {
    const host::LinearShape s{37, 22, 18, 22, 18};
    Device device;
    const cuda::Queue q = device.queue();
    Buffer x = random(r, t, s.rows * s.k), w = random(r, t, s.n * s.k), b = random(r, t, s.n);
    Buffer dy = random(r, t, s.rows * s.n), y(t, s.rows * s.n), y2 = y;
    Scratch ws(host::linear_workspace(t, s));
    cuda::linear(q, y, x, w, b, s, false);
    device.wait();
    host::linear(y2, x, w, b, s, false, ws);
    check_close("linear", y, y2, t);
    // A bias off every boundary that a library's product may want.
    Buffer odd = random(r, t, s.n + 1);
    const View off = odd.view().at(1);
    cuda::linear(q, y, x, w, off, s, false);
    device.wait();
    host::linear(y2, x, w, off, s, false, ws);
    check_close("linear, odd bias", y, y2, t);
    if (t == DType::bf16 || t == DType::f16) CHECK_FALSE(cuda::linear_gelu(q, y, y2, x, w, off, s));
    for (const DType g : {t, statistic(t)}) {
      Buffer db = random(r, g, s.n), db2 = db, dw = random(r, g, s.n * s.k), dw2 = dw;
      cuda::bias_gradient(q, db, dy, s.rows, s.n);
      cuda::linear_weight_gradient(q, dw, dy, x, s);
      device.wait();
      host::bias_gradient(db2, dy, s.rows, s.n, s.n);
      host::linear_weight_gradient(dw2, dy, x, s, ws);
      check_close("d_bias", db, db2, g);
      check_close("d_weight", dw, dw2, g);
    }
  }
}

// The same values in f32, where results of what is computed in it are not rounded to 16 bits.
TEST_CASE("products that compute the GELU which reads them are their host twins, rounded once") {
  Random r(27);
  for (const DType t : {DType::bf16, DType::f16})
    for (const bool biased : {true, false}) {
      const host::LinearShape s{40, 24, 16, 24, 16};
      Device device;
      const cuda::Queue q = device.queue();
      const auto wide = [](Buffer& b) { return Buffer(DType::f32, b.values()); };
      Buffer x = random(r, t, s.rows * s.k), w = random(r, t, s.n * s.k), b = random(r, t, s.n);
      Buffer y(t, s.rows * s.n), z = y, before = random(r, t, s.rows * s.k), dx(t, before.size());
      if (!cuda::linear_gelu(q, z, y, x, w, biased ? View(b) : View{}, s) ||
          !cuda::linear_input_gradient_gelu(q, dx, y, w, before, s)) {
        WARN("skipped: the library has no such product of " << core::name(t));
        continue;
      }
      device.wait();
      Buffer x32 = wide(x), w32 = wide(w), b32 = wide(b), y32(DType::f32, y.size()), z32 = y32;
      Scratch ws(host::linear_workspace(DType::f32, s));
      host::linear(y32, x32, w32, biased ? View(b32) : View{}, s, false, ws);
      host::gelu(z32, y32, y32.size());
      check_close("kept", y, y32, t);
      check_by(kTanh, "gelu", z, z32, t);
      Buffer dy32 = wide(y), before32 = wide(before), dx32(DType::f32, dx.size());
      host::linear_input_gradient(dx32, dy32, w32, s, false, ws);
      host::gelu_gradient(dx32, dx32, before32, dx32.size());
      check_by(kTanh, "gelu_gradient", dx, dx32, t);
    }
}

// Wide rows whose length no tensor core takes at once: the last columns are a product of their own.
// What lies between two rows stays as it is.
TEST_CASE("the columns that are left over of wide padded rows are computed as the others") {
  Random r(27);
  const host::LinearShape s{5, 1043, 24, 1088, 24};
  for (const DType t : {DType::bf16, DType::f16}) {
    Device device;
    const cuda::Queue q = device.queue();
    Buffer x = random(r, t, s.rows * s.k), w = random(r, t, s.n * s.k), b = random(r, t, s.n);
    Buffer y = random(r, t, s.rows * s.ldy), y2 = y;
    Scratch ws(host::linear_workspace(t, s));
    cuda::linear(q, y, x, w, b, s, false);
    device.wait();
    host::linear(y2, x, w, b, s, false, ws);
    check_close("linear", y, y2, t);
    for (std::int64_t row = 0; row < s.rows; ++row)
      for (std::int64_t c = s.n; c < s.ldy; ++c)
        REQUIRE(y.at(row * s.ldy + c) == y2.at(row * s.ldy + c));
    for (const bool adds : {false, true}) {
      Buffer dx = random(r, t, s.rows * s.k), dx2 = dx;
      cuda::linear_input_gradient(q, dx, y, w, s, adds);
      device.wait();
      host::linear_input_gradient(dx2, y, w, s, adds, ws);
      check_close("input gradient", dx, dx2, t);
    }
    Buffer dw = random(r, t, s.n * s.k), dw2 = dw;
    cuda::linear_weight_gradient(q, dw, y, x, s);
    device.wait();
    host::linear_weight_gradient(dw2, y, x, s, ws);
    check_close("weight gradient", dw, dw2, t);
  }
}

TEST_CASE("losses over whole and divided vocabularies are their host twins") {
  Random r(25);
  for (const DType t : kTypes)
    for (const std::int64_t columns : {61, 700, 704}) {
      const DType s = statistic(t);
      const host::LogitShape shape{6, columns, columns, columns, 2 * columns - 5};
      Device device;
      const cuda::Queue q = device.queue();
      Tokens targets(r, shape.rows, shape.vocab);
      Buffer logits = random(r, t, shape.rows * columns, 4), twin = logits, before = logits;
      Buffer max(s, shape.rows), max2 = max, sums(s, 2 * shape.rows), sums2 = sums;
      Buffer loss = Buffer(f64, Values{0.5}), loss2 = loss;
      const auto at = [](Buffer& l) { return static_cast<double*>(l.view().data); };
      cuda::softmax_max(q, max, logits, shape);
      cuda::softmax_sum(q, sums, logits, max, targets, shape);
      cuda::cross_entropy(q, at(loss), logits, max, sums, targets, shape, 0.25);
      device.wait();
      host::softmax_max(max2, twin, shape);
      host::softmax_sum(sums2, twin, max2, targets, shape);
      host::cross_entropy(at(loss2), twin, max2, sums2, targets, shape, 0.25);
      CHECK(max == max2);
      check_close("sums", sums, sums2, s);
      Buffer max3(s, shape.rows), sums3(s, 2 * shape.rows);
      cuda::softmax_max_and_sum(q, max3, sums3, before, targets, shape);
      device.wait();
      CHECK(max3 == max2);
      check_close("sums with maxima", sums3, sums2, s);
      check_close("d_logits", logits, twin, t);
      // All of one reading, where rows begin at multiples of 16 bytes.
      Buffer loss4(f64, Values{0.5}), max4(s, shape.rows), sums4(s, 2 * shape.rows);
      const bool wide = columns % (16 / core::bytes_of(1, t).value()) == 0;
      REQUIRE(wide == cuda::softmax_and_cross_entropy(q, at(loss4), before, max4, sums4, targets,
                                                      shape, 0.25));
      if (wide) {
        device.wait();
        CHECK(max4 == max2);
        check_close("sums of one reading", sums4, sums2, s);
        check_close("d_logits of one reading", before, twin, t);
        CHECK(loss4.at(0) == Approx(loss2.at(0)).epsilon(t == f64 ? 1e-14 : 1e-6));
      }
      CHECK(loss.at(0) == Approx(loss2.at(0)).epsilon(t == f64 ? 1e-14 : 1e-6));

      Buffer y = random(r, t, 333), y2 = y, target = random(r, t, 333);
      cuda::squared_error(q, at(loss), y, target, 333, 0.1);
      device.wait();
      host::squared_error(at(loss2), y2, target, 333, 0.1);
      check_close("squared_error", y, y2, t);
      CHECK(loss.at(0) == Approx(loss2.at(0)).epsilon(t == f64 ? 1e-14 : 1e-6));
    }
}

TEST_CASE("attention and its gradient are their host twins, with grouped queries too") {
  Random r(26);
  struct Cell { std::int64_t samples, seq, heads, kv_heads, d; };
  for (const DType t : kTypes)
    for (const Cell& c : {Cell{2, 9, 3, 3, 2}, Cell{1, 70, 4, 2, 33}, Cell{2, 33, 2, 1, 64},
                          Cell{1, 130, 1, 1, 128}}) {
      const host::AttentionShape s{c.samples, c.seq, c.heads, c.kv_heads, c.d, true};
      const std::int64_t in = c.samples * c.seq * s.qkv_columns();
      const std::int64_t out = c.samples * c.seq * c.heads * c.d;
      const std::int64_t statistics = c.samples * c.heads * c.seq;
      Device device;
      const cuda::Queue q = device.queue();
      Buffer qkv = random(r, t, in, 2), dout = random(r, t, out);
      Buffer y(t, out), y2 = y, lse(statistic(t), statistics), lse2 = lse, dx(t, in), dx2 = dx;
      Scratch ws(host::attention_workspace(t, s));
      cuda::attention(q, y, lse, qkv, s);
      device.wait();
      host::attention(y2, lse2, qkv, s, ws);
      INFO("head " << c.d << " of " << c.seq << " tokens");
      check_close("attention", y, y2, t);
      check_close("log sum exp", lse, lse2, statistic(t));
      cuda::attention_input_gradient(q, dx, dout, qkv, y2, lse2, s);
      device.wait();
      host::attention_input_gradient(dx2, dout, qkv, y2, lse2, s, ws);
      check_close("attention_input_gradient", dx, dx2, t);
    }
}

TEST_CASE("attention of every mask and score is its host twin") {
  Random r(28);
  const auto cell = [](std::int64_t seq, std::int64_t heads, std::int64_t kv_heads, std::int64_t d,
                       auto change) {
    host::AttentionShape s{2, seq, heads, kv_heads, d, true};
    change(s);
    return s;
  };
  using Shape = host::AttentionShape;
  const std::vector<Shape> cells{
      cell(70, 4, 2, 16, [](Shape& s) { s.causal = false; }),
      cell(150, 2, 1, 64, [](Shape& s) { s.window = 40; }),
      cell(150, 2, 2, 24, [](Shape& s) { s.chunk = 48; }),
      cell(70, 2, 1, 32, [](Shape& s) { s.soft_cap = 1.5; }),
      cell(70, 2, 2, 8, [](Shape& s) { s.scale = 0.7, s.window = 1; }),
      cell(70, 6, 3, 16, [](Shape& s) { s.biases = {6, 12, {}, {}}; }),
      cell(40, 3, 3, 24, [](Shape& s) { s.value_dim = 16; }),
      cell(33, 2, 1, 160, [](Shape& s) { s.value_dim = 128; }),
      cell(33, 2, 1, 256, [](Shape& s) { s.window = 20, s.soft_cap = 2; })};
  for (const DType t : kTypes)
    for (const Shape& s : cells)
      for (const bool sinks : {false, true}) {
        INFO(core::name(t) << ", " << s.seq << " tokens, heads of " << s.head_dim << ", window "
                           << s.window << ", chunk " << s.chunk << ", cap " << s.soft_cap);
        const std::int64_t in = s.samples * s.seq * s.qkv_columns();
        const std::int64_t out = s.samples * s.seq * s.heads * s.values();
        const std::int64_t statistics = s.samples * s.heads * s.seq;
        Device device;
        const cuda::Queue q = device.queue();
        Buffer qkv = random(r, t, in, 2), dout = random(r, t, out), sink = random(r, t, s.heads);
        const View of = sinks ? View(sink) : View{};
        Buffer y(t, out), y2 = y, lse(statistic(t), statistics), lse2 = lse, dx(t, in), dx2 = dx;
        Scratch ws(host::attention_workspace(t, s));
        cuda::attention(q, y, lse, qkv, s, of);
        device.wait();
        host::attention(y2, lse2, qkv, s, ws, {}, {}, of);
        check_close("attention", y, y2, t);
        check_close("log sum exp", lse, lse2, statistic(t));
        cuda::attention_input_gradient(q, dx, dout, qkv, y2, lse2, s);
        device.wait();
        host::attention_input_gradient(dx2, dout, qkv, y2, lse2, s, ws);
        check_close("attention_input_gradient", dx, dx2, t);
        if (!sinks) continue;
        Buffer ds = random(r, statistic(t), s.heads), ds2 = ds;
        cuda::attention_sink_gradient(q, ds, dout, y2, lse2, sink, s);
        device.wait();
        host::attention_sink_gradient(ds2, dout, y2, lse2, sink, s);
        check_close("attention_sink_gradient", ds, ds2, statistic(t));
      }
}
