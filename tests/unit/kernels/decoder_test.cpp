// Kernels that decoders have had since Llama: attention against its definition, gradients against
// central differences, values by hand.
#include "exec/host/decoder.hpp"

#include "exec/host/experts.hpp"
#include "models/ops/op_kind.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;
using models::OpKind;

namespace {

// out of causal attention by its definition, O(seq^2) a head, in double. sinks: of heads, or none.
Values defined(const Values& qkv, const AttentionShape& s, const Values& sinks) {
  const std::int64_t d = s.head_dim, dv = s.values(), ld = s.qkv_columns();
  const std::int64_t share = s.heads / s.kv_heads;
  const double scale = s.scale != 0 ? s.scale : 1 / std::sqrt(static_cast<double>(d));
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return qkv[static_cast<std::size_t>(row * ld + column)];
  };
  Values out(static_cast<std::size_t>(s.samples * s.seq * s.heads * dv));
  for (std::int64_t i = 0; i < s.samples * s.seq * s.heads; ++i) {
    const std::int64_t head = i % s.heads, row = i / s.heads, place = row % s.seq;
    const std::int64_t start = row - place, k0 = (s.heads + head / share) * d;
    const std::int64_t v0 = (s.heads + s.kv_heads) * d + head / share * dv;
    double total = sinks.empty() ? 0 : std::exp(sinks[static_cast<std::size_t>(head)]);
    for (std::int64_t j = 0; j <= place; ++j) {
      if (s.window > 0 && place - j >= s.window) continue;
      if (s.chunk > 0 && place / s.chunk != j / s.chunk) continue;
      double score = 0;
      for (std::int64_t c = 0; c < d; ++c) score += at(row, head * d + c) * at(start + j, k0 + c);
      score *= scale;
      if (s.soft_cap > 0) score = s.soft_cap * std::tanh(score / s.soft_cap);
      total += std::exp(score);
      for (std::int64_t c = 0; c < dv; ++c)
        out[static_cast<std::size_t>(i * dv + c)] += std::exp(score) * at(start + j, v0 + c);
    }
    for (std::int64_t c = 0; c < dv; ++c) out[static_cast<std::size_t>(i * dv + c)] /= total;
  }
  return out;
}

AttentionShape variant(int which, std::int64_t seq) {
  AttentionShape s{.samples = 2, .seq = seq, .heads = 4, .kv_heads = 2, .head_dim = 6};
  if (which == 0) s.window = 5;
  if (which == 1) s.chunk = 7;
  if (which == 2) s.soft_cap = 0.7;
  if (which == 3) s.scale = 0.9;
  if (which == 4) s.value_dim = 3;
  if (which == 5) s.value_dim = 8, s.window = 70, s.soft_cap = 2;
  return s;
}

struct Run {
  Buffer out, lse;
};

Run attend(Buffer& qkv, const AttentionShape& s, View sinks, View scores = {}) {
  Run r{Buffer(f64, s.samples * s.seq * s.heads * s.values()),
        Buffer(f64, s.samples * s.seq * s.heads)};
  Scratch ws(attention_workspace(f64, s));
  attention(r.out, r.lse, qkv, s, ws, {}, scores, sinks);
  return r;
}

}  // namespace

TEST_CASE("attention within windows, chunks, caps and with sinks equals its definition") {
  Random r(3);
  const int which = GENERATE(range(0, 6));
  const AttentionShape s = variant(which, GENERATE(1, 5, 64, 65, 150));
  Buffer qkv = random(r, f64, s.samples * s.seq * s.qkv_columns(), 2.0);
  Buffer sinks = random(r, f64, s.heads);
  for (const bool sunk : {false, true}) {
    CAPTURE(which, s.seq, sunk);
    Run got = attend(qkv, s, sunk ? View(sinks) : View{});
    const Values want = defined(qkv.values(), s, sunk ? sinks.values() : Values{});
    for (std::int64_t i = 0; i < got.out.size(); ++i)
      REQUIRE(got.out.at(i) == Approx(want[static_cast<std::size_t>(i)]).margin(1e-13));
  }
}

TEST_CASE("gradients of attention's variants are central differences, probabilities kept or not") {
  Random r(4);
  const int which = GENERATE(range(0, 6));
  const AttentionShape s = variant(which, 9);
  Buffer qkv = random(r, f64, s.samples * s.seq * s.qkv_columns(), 1.5);
  Buffer sinks = random(r, f64, s.heads);
  Buffer dout = random(r, f64, s.samples * s.seq * s.heads * s.values());
  for (const bool kept : {false, true}) {
    CAPTURE(which, kept);
    Buffer scores(f64, s.samples * s.heads * s.seq * s.seq), dqkv(f64, qkv.size());
    const View stored = kept ? View(scores) : View{};
    Run made = attend(qkv, s, sinks, stored);
    const auto loss = [&] {
      Run again = attend(qkv, s, sinks);
      return dot(again.out, dout);
    };
    Scratch ws(attention_workspace(f64, s));
    attention_input_gradient(dqkv, dout, qkv, made.out, made.lse, s, ws, {}, stored);
    check_gradient(qkv, dqkv, loss);
    Buffer dsinks = zeros(f64, s.heads);
    attention_sink_gradient(dsinks, dout, made.out, made.lse, sinks, s);
    check_gradient(sinks, dsinks, loss);
  }
}

TEST_CASE("a window of two tokens, one head of width one: by hand") {
  // Row 2 sees rows 1 and 2: q = 1, k = (0, ln 3), v = (4, 8), so 7; row 0's 100 is outside.
  Buffer qkv(f64, Values{9, 5, 100, 0, 0, 4, 1, std::log(3.0), 8}), out(f64, 3), lse(f64, 3);
  const AttentionShape s{.samples = 1, .seq = 3, .heads = 1, .kv_heads = 1, .head_dim = 1,
                         .window = 2};
  Scratch ws(attention_workspace(f64, s));
  attention(out, lse, qkv, s, ws);
  CHECK(out.at(0) == 100);
  CHECK(out.at(2) == Approx(7));
  CHECK(lse.at(2) == Approx(std::log(4.0)));
}

TEST_CASE("gradients of gates and of functions of one element are central differences") {
  Random r(5);
  const std::int64_t rows = 3, n = 7;
  for (const OpKind kind : {OpKind::swiglu, OpKind::geglu, OpKind::clamped_swiglu}) {
    CAPTURE(static_cast<int>(kind));
    Buffer x = random(r, f64, rows * 2 * n, 9.0), dy = random(r, f64, rows * n);
    Buffer dx(f64, rows * 2 * n);
    gated_gradient(dx, dy, x, rows, n, kind);
    check_gradient(x, dx, [&] {
      Buffer y(f64, rows * n);
      gated(y, x, rows, n, kind);
      return dot(y, dy);
    });
  }
  for (const OpKind kind : {OpKind::relu_squared, OpKind::soft_cap}) {
    CAPTURE(static_cast<int>(kind));
    const UnaryForm form{.factor = 0.8};
    Buffer x = random(r, f64, n, 2.0), dy = random(r, f64, n), dx(f64, n);
    const auto loss = [&] {
      Buffer y(f64, n);
      unary(y, x, n, kind, form);
      return dot(y, dy);
    };
    unary_gradient(dx, dy, x, n, kind, form, false);
    check_gradient(x, dx, loss);
    Buffer old = random(r, f64, n), sum = old;
    unary_gradient(sum, dy, x, n, kind, form, true);
    Buffer added = minus(sum, old);
    check_gradient(x, added, loss);
  }
}

TEST_CASE("clamped SwiGLU: gate 8 counts as 7, up 9 as 7, by hand") {
  Buffer x(f64, Values{8, 9}), y(f64, 1), dy(f64, Values{1}), dx(f64, 2);
  gated(y, x, 1, 1, OpKind::clamped_swiglu);
  CHECK(y.at(0) == Approx(8 * 7 / (1 + std::exp(-1.702 * 7))));
  gated_gradient(dx, dy, x, 1, 1, OpKind::clamped_swiglu);
  CHECK(dx.values() == Values{0, 0});
}

TEST_CASE("gradients of gated rows, of joined latents and of norms over all heads") {
  Random r(6);
  const std::int64_t rows = 4, n = 5;
  for (const bool open : {false, true}) {
    const RowGates gates{rows, n, open};
    Buffer x = random(r, f64, rows * n), gate = random(r, f64, rows), dy = random(r, f64, rows * n);
    Buffer dx(f64, rows * n), dgate(f64, rows);
    const auto loss = [&] {
      Buffer y(f64, rows * n);
      row_gate(y, x, gate, gates);
      return dot(y, dy);
    };
    row_gate_gradient(dx, dgate, dy, x, gate, gates, false);
    check_gradient(x, dx, loss);
    check_gradient(gate, dgate, loss);
    Buffer both = zeros(f64, rows * n), sums = zeros(f64, rows);
    for (int twice = 0; twice < 2; ++twice)
      row_gate_gradient(both, sums, dy, x, gate, gates, true);
    for (std::int64_t i = 0; i < rows * n; ++i) CHECK(both.at(i) == 2 * dx.at(i));
    for (std::int64_t i = 0; i < rows; ++i) CHECK(sums.at(i) == 2 * dgate.at(i));
  }
  {
    const HeadShape s{.rows = rows, .heads = 3, .kv_heads = 3, .head_dim = 6, .value_dim = 4};
    const std::int64_t rotated = 2;
    Buffer q = random(r, f64, rows * 18), kv = random(r, f64, rows * 3 * 8);
    Buffer k_rope = random(r, f64, rows * rotated), dy = random(r, f64, rows * s.columns());
    Buffer dq(f64, q.size()), dkv(f64, kv.size()), dk(f64, k_rope.size());
    const auto loss = [&] {
      Buffer y(f64, rows * s.columns());
      latent_join(y, q, kv, k_rope, s, rotated);
      return dot(y, dy);
    };
    latent_join_gradient(dq, dkv, dk, dy, s, rotated);
    check_gradient(q, dq, loss);
    check_gradient(kv, dkv, loss);
    check_gradient(k_rope, dk, loss);
  }
  const HeadShape s{.rows = rows, .heads = 4, .kv_heads = 2, .head_dim = 3};
  const WidthNorm norm{.epsilon = 1e-2, .parts = 1};
  Buffer qkv = random(r, f64, rows * s.columns()), q = random(r, f64, 12), k = random(r, f64, 6);
  Buffer dy = random(r, f64, rows * s.columns()), sums(f64, rows * 2);
  square_sums(sums, qkv, s);
  const auto loss = [&] {
    Buffer y(f64, rows * s.columns()), squares(f64, rows * 2);
    square_sums(squares, qkv, s);
    width_norm(y, qkv, squares, q, k, s, norm);
    return dot(y, dy);
  };
  Buffer dqkv(f64, qkv.size()), dsums(f64, sums.size()), dgq = zeros(f64, 12), dgk = zeros(f64, 6);
  width_norm_weight_gradient(dgq, dgk, dy, qkv, sums, s, norm);
  width_norm_gradient(dqkv, dsums, dy, qkv, sums, q, k, s, norm);
  square_sums_gradient(dqkv, dsums, qkv, s, true);
  check_gradient(qkv, dqkv, loss);
  check_gradient(q, dgq, loss);
  check_gradient(k, dgk, loss);
}

TEST_CASE("RMS norms with an offset, and norms of heads without gammas, have their gradients") {
  Random r(7);
  const std::int64_t rows = 3, n = 8;
  Buffer x = random(r, f64, rows * n), gamma = random(r, f64, n), dy = random(r, f64, rows * n);
  Buffer y(f64, rows * n), rstd(f64, rows), dx(f64, rows * n), dgamma = zeros(f64, n);
  const auto loss = [&] {
    Buffer out(f64, rows * n), s(f64, rows);
    rms_norm(out, s, x, gamma, rows, n, 1e-3, 1.0);
    return dot(out, dy);
  };
  rms_norm(y, rstd, x, gamma, rows, n, 1e-3, 1.0);
  rms_norm_input_gradient(dx, dy, x, gamma, rstd, rows, n, false, 1.0);
  rms_norm_weight_gradient(dgamma, dy, x, rstd, rows, n);
  check_gradient(x, dx, loss);
  check_gradient(gamma, dgamma, loss);

  const HeadShape s{.rows = rows, .heads = 2, .kv_heads = 1, .head_dim = 4};
  Buffer qkv = random(r, f64, rows * s.columns()), d = random(r, f64, rows * s.columns());
  Buffer out(f64, qkv.size()), of(f64, rows * 3), dqkv(f64, qkv.size());
  qk_norm(out, of, qkv, {}, {}, s, 1e-3);
  qk_norm_input_gradient(dqkv, d, qkv, {}, {}, of, s);
  check_gradient(qkv, dqkv, [&] {
    Buffer z(f64, qkv.size()), statistics(f64, rows * 3);
    qk_norm(z, statistics, qkv, {}, {}, s, 1e-3);
    return dot(z, d);
  });
}

TEST_CASE("gates of every router, by the formula; their gradients are central differences") {
  Random r(8);
  RoutingShape s{2, 6, 4, 2};
  const int which = GENERATE(range(0, 5));
  if (which == 1) s.router = {.sigmoid = false, .normalised = false, .scale = 1.5};
  if (which == 2) s.router = {.sigmoid = true, .normalised = true, .scale = 2.5};
  if (which == 3) s.router = {.sigmoid = true, .normalised = false, .scale = 1};
  if (which == 4) s.router = {.sigmoid = false, .normalised = true, .scale = 3};
  CAPTURE(which);
  Buffer logits = random(r, f64, s.rows() * s.experts, 2.0);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(s.rows() * s.chosen));
  const View places{ids.data(), DType::i32};
  const auto route = [&](View to) {
    Buffer gates(f64, s.rows() * s.chosen);
    Scratch ws(top_k_workspace(s));
    top_k(gates, to, logits, s, ws);
    return gates;
  };
  Buffer gates = route(places);
  for (std::int64_t row = 0; row < s.rows(); ++row) {
    const double sum = gates.at(2 * row) + gates.at(2 * row + 1);
    if (s.router.normalised) CHECK(sum == Approx(s.router.scale));
    if (which == 3) CHECK(gates.at(2 * row) < 1);
    if (which == 1) CHECK(sum < s.router.scale);
  }
  Buffer d = random(r, f64, gates.size()), dlogits(f64, logits.size());
  top_k_gradient(dlogits, d, gates, places, logits, s);
  // The choice is what it was: no logit lies within 1e-5 of another in these draws.
  check_gradient(logits, dlogits, [&] {
    std::vector<std::int32_t> same(ids.size());
    Buffer moved = route(View{same.data(), DType::i32});
    REQUIRE(same == ids);
    return dot(moved, d);
  });
}

TEST_CASE("experts add a rank's columns of their biases, whose gradients are column sums") {
  Random r(9);
  const ExpertShape s{.samples = 2, .rows = 6, .n = 3, .k = 4, .experts = 2, .origins = 1,
                      .first_biased = 1, .biased = 2, .bias_ld = 2};
  const std::int64_t rows = 12;
  Buffer x = random(r, f64, rows * 4), w = random(r, f64, 24), b = random(r, f64, 4);
  Buffer dy = random(r, f64, rows * 3), dw = zeros(f64, 24), db = zeros(f64, 4);
  Scratch ws(expert_linear_workspace(f64, s));
  expert_linear_weight_gradient(dw, dy, x, s, ws);
  expert_bias_gradient(db, dy, s);
  const auto loss = [&] {
    Buffer y(f64, rows * 3);
    Scratch own(expert_linear_workspace(f64, s));
    expert_linear(y, x, w, b, s, own);
    return dot(y, dy);
  };
  check_gradient(b, db, loss);
  check_gradient(w, dw, loss);
}
