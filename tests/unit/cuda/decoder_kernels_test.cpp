// What decoders have had since Llama, and the ends of BERT, on an emulated grid against exec/host.
#include "exec/host/decoder.hpp"
#include "exec/host/graphs.hpp"
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
namespace host = exec::host;

TEST_CASE("norms with offsets, without gammas and without betas are their host twins") {
  Random r(41);
  for (const DType t : kTypes)
    for (const std::int64_t n : {7, 24, 64, 9000}) {  // off packs; in registers; longer than those
      const std::int64_t rows = 5;
      const DType s = statistic(t);
      Device device;
      const cuda::Queue q = device.queue();
      Buffer x = random(r, t, rows * n), dy = random(r, t, rows * n), gamma = random(r, t, n);
      Buffer y(t, rows * n), y2 = y, rstd(s, rows), rstd2 = rstd, mean = rstd, mean2 = rstd;
      Buffer dx(t, rows * n), dx2 = dx, dg = random(r, s, n), dg2 = dg;
      cuda::rms_norm(q, y, rstd, x, gamma, rows, n, 1e-5, 1);
      cuda::rms_norm_gradients(q, dx, dg, dy, x, gamma, rstd, rows, n, false, 1);
      device.wait();
      host::rms_norm(y2, rstd2, x, gamma, rows, n, 1e-5, 1);
      host::rms_norm_input_gradient(dx2, dy, x, gamma, rstd, rows, n, false, 1);
      host::rms_norm_weight_gradient(dg2, dy, x, rstd, rows, n);
      check_close("rms_norm", y, y2, t);
      check_close("rms_norm_input_gradient", dx, dx2, t);
      check_close("d_gamma", dg, dg2, s);
      cuda::layer_norm(q, y, mean, rstd, x, gamma, {}, rows, n, 1e-5);
      cuda::layer_norm_gradients(q, dx, dg, {}, dy, x, gamma, mean, rstd, rows, n, false);
      device.wait();
      host::layer_norm(y2, mean2, rstd2, x, gamma, {}, rows, n, 1e-5);
      host::layer_norm_input_gradient(dx2, dy, x, gamma, mean, rstd, rows, n, false);
      host::layer_norm_weight_gradient(dg2, {}, dy, x, mean, rstd, rows, n);
      check_close("layer_norm", y, y2, t);
      check_close("layer_norm_input_gradient", dx, dx2, t);
      check_close("d_gamma of layer_norm", dg, dg2, s);
    }
  for (const DType t : kTypes)
    for (const bool gammas : {true, false}) {
      const host::HeadShape h{5, 6, 2, 16};
      const std::int64_t size = h.rows * h.columns(), normed = h.rows * 8;
      Device device;
      const cuda::Queue q = device.queue();
      Buffer qkv = random(r, t, size), dy = random(r, t, size);
      Buffer gq = random(r, t, 16), gk = random(r, t, 16);
      const View of_q = gammas ? View(gq) : View{}, of_k = gammas ? View(gk) : View{};
      Buffer y(t, size), y2 = y, rstd(statistic(t), normed), rstd2 = rstd, dx(t, size), dx2 = dx;
      cuda::qk_norm(q, y, rstd, qkv, of_q, of_k, h, 1e-5, gammas ? 1 : 0);
      cuda::qk_norm_input_gradient(q, dx, dy, qkv, of_q, of_k, rstd, h, gammas ? 1 : 0);
      device.wait();
      host::qk_norm(y2, rstd2, qkv, of_q, of_k, h, 1e-5, gammas ? 1 : 0);
      host::qk_norm_input_gradient(dx2, dy, qkv, of_q, of_k, rstd, h, gammas ? 1 : 0);
      check_close("qk_norm", y, y2, t);
      check_close("qk_norm_input_gradient", dx, dx2, t);
    }
}

TEST_CASE("gates of rows are their host twins") {
  Random r(42);
  for (const DType t : kTypes)
    for (const std::int64_t n : {5, 48, 300})
      for (const bool open : {false, true})
        for (const bool accumulate : {false, true}) {
          const host::RowGates s{9, n, open};
          Device device;
          const cuda::Queue q = device.queue();
          Buffer x = random(r, t, 9 * n), gate = random(r, t, 9, 3), dy = random(r, t, 9 * n);
          Buffer y(t, 9 * n), y2 = y;
          Buffer dx = random(r, t, 9 * n), dgate = random(r, t, 9), dx2 = dx, dgate2 = dgate;
          cuda::row_gate(q, y, x, gate, s);
          cuda::row_gate_gradient(q, dx, dgate, dy, x, gate, s, accumulate);
          device.wait();
          host::row_gate(y2, x, gate, s);
          host::row_gate_gradient(dx2, dgate2, dy, x, gate, s, accumulate);
          check_close("row_gate", y, y2, t);
          check_close("d_x", dx, dx2, t);
          check_close("d_gate", dgate, dgate2, t);
        }
}

TEST_CASE("rows side by side are their host twins") {
  Random r(46);
  for (const DType t : kTypes)
    for (const auto& [columns, first, width] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{11, 3, 5}, {48, 16, 24}}) {
      const host::ColumnBlock b{9, columns, first, width};
      Device device;
      const cuda::Queue q = device.queue();
      Buffer wide = random(r, t, 9 * columns), narrow = random(r, t, 9 * width);
      Buffer wide2 = wide, taken = random(r, t, 9 * width), taken2 = taken;
      cuda::put_columns(q, wide, narrow, b);
      device.wait();
      host::put_columns(wide2, narrow, b);
      CHECK(wide == wide2);
      for (const bool accumulate : {true, false}) {
        cuda::take_columns(q, taken, wide, b, accumulate);
        device.wait();
        host::take_columns(taken2, wide, b, accumulate);
        CHECK(taken == taken2);
      }
    }
}

TEST_CASE("latent attention's join is its host twin, in packs and off them") {
  Random r(43);
  for (const DType t : kTypes)
    for (const auto& [d, rotated, values] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{6, 2, 5}, {24, 8, 16}}) {
      const host::HeadShape s{7, 3, 3, d, values};
      const std::int64_t plain = d - rotated;
      Device device;
      const cuda::Queue q = device.queue();
      Buffer of_q = random(r, t, 7 * 3 * d), kv = random(r, t, 7 * 3 * (plain + values));
      Buffer k_rope = random(r, t, 7 * rotated), qkv(t, 7 * s.columns()), qkv2 = qkv;
      Buffer d_qkv = random(r, t, 7 * s.columns());
      Buffer dq(t, of_q.size()), dkv(t, kv.size()), dk(t, k_rope.size());
      Buffer dq2 = dq, dkv2 = dkv, dk2 = dk;
      cuda::latent_join(q, qkv, of_q, kv, k_rope, s, rotated);
      cuda::latent_join_gradient(q, dq, dkv, dk, d_qkv, s, rotated);
      device.wait();
      host::latent_join(qkv2, of_q, kv, k_rope, s, rotated);
      host::latent_join_gradient(dq2, dkv2, dk2, d_qkv, s, rotated);
      CHECK(qkv == qkv2);
      CHECK(dq == dq2);
      CHECK(dkv == dkv2);
      check_close("d_k_rope", dk, dk2, t);
    }
}

TEST_CASE("norms over the width of all heads are their host twins") {
  Random r(44);
  for (const DType t : kTypes)
    for (const std::int64_t d : {5, 16, 64}) {
      const host::HeadShape s{70, 4, 2, d};
      const host::WidthNorm norm{1e-5, 2};
      const DType st = statistic(t);
      const std::int64_t size = s.rows * s.columns();
      Device device;
      const cuda::Queue q = device.queue();
      Buffer qkv = random(r, t, size), dy = random(r, t, size);
      Buffer gq = random(r, t, 4 * d), gk = random(r, t, 2 * d);
      Buffer sums(st, 2 * s.rows), sums2 = sums, y(t, size), y2 = y;
      cuda::square_sums(q, sums, qkv, s);
      cuda::width_norm(q, y, qkv, sums, gq, gk, s, norm);
      device.wait();
      host::square_sums(sums2, qkv, s);
      host::width_norm(y2, qkv, sums, gq, gk, s, norm);
      check_close("square_sums", sums, sums2, st);
      check_close("width_norm", y, y2, t);
      for (const DType g : {t, st}) {
        Buffer dx(t, size), dsums(st, 2 * s.rows), dx2 = dx, dsums2 = dsums;
        Buffer dq = random(r, g, 4 * d), dk = random(r, g, 2 * d);
        Buffer wide_q = as(st, dq), wide_k = as(st, dk);  // the host rounds at every row
        cuda::width_norm_gradients(q, dx, dsums, dq, dk, dy, qkv, sums, gq, gk, s, norm);
        device.wait();
        host::width_norm_weight_gradient(wide_q, wide_k, dy, qkv, sums, s, norm);
        host::width_norm_gradient(dx2, dsums2, dy, qkv, sums, gq, gk, s, norm);
        check_close("d_qkv", dx, dx2, t);
        check_close("d_sums", dsums, dsums2, st);
        check_close("d_q_gamma", dq, wide_q, g);
        check_close("d_k_gamma", dk, wide_k, g);
        for (const bool accumulate : {true, false}) {
          cuda::square_sums_gradient(q, dx, dsums, qkv, s, accumulate);
          device.wait();
          host::square_sums_gradient(dx2, dsums, qkv, s, accumulate);
          check_close("d_qkv of the sums", dx, dx2, t);
        }
      }
    }
}

TEST_CASE("types of tokens and the first token are their host twins") {
  Random r(45);
  for (const DType t : kTypes)
    for (const std::int64_t h : {6, 64})
      for (const std::int64_t each : {9, 18}) {  // rows of a sample's types: all, or a piece
        const cuda::TypeRows s{3, 9, each, each == 9 ? 0 : 9, 2, h};
        Device device;
        const cuda::Queue q = device.queue();
        Tokens types(r, 3 * each, 2);
        Buffer x = random(r, t, 27 * h), table = random(r, t, 2 * h), dy = random(r, t, 27 * h);
        Buffer y(t, 27 * h), y2 = y, dw = random(r, t, 2 * h), wide = as(statistic(t), dw);
        cuda::type_embedding(q, y, x, table, types, s);
        cuda::type_embedding_weight_gradient(q, dw, dy, types, s);
        device.wait();
        for (std::int64_t i = 0; i < 3; ++i) {
          const View own = View(types).at(i * each + s.first);
          host::type_embedding(y2.view().at(i * 9 * h), x.view().at(i * 9 * h), table, own, 9, h);
          host::type_embedding_weight_gradient(wide, dy.view().at(i * 9 * h), own, 9, h);
        }
        CHECK(y == y2);
        check_close("d_wtt", dw, wide, t);

        Buffer first(t, 3 * h), first2 = first, dx = random(r, t, 27 * h), dx2 = dx;
        cuda::first_token(q, first, x, 3, 9, h);
        device.wait();
        host::first_token(first2, x, 3, 9, h);
        CHECK(first == first2);
        for (const bool accumulate : {true, false}) {
          cuda::first_token_gradient(q, dx, first, 3, 9, h, accumulate);
          device.wait();
          host::first_token_gradient(dx2, first, 3, 9, h, accumulate);
          check_close("first_token_gradient", dx, dx2, t);
        }
      }
}
