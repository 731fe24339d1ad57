#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
using models::Activation;

TEST_CASE("elementwise kernels are their host twins at odd sizes and odd places") {
  Random r(11);
  for (const DType t : kTypes)
    for (const std::int64_t n : {1, 7, 2049, 4099}) {
      Device device;
      const cuda::Queue q = device.queue();
      // One element in: not at a boundary of 16 bytes.
      for (const std::int64_t off : {0, 1}) {
        Buffer x = random(r, t, n + 1, 3), d = random(r, t, n + 1, 3);
        Buffer found(t, n + 1), expected(t, n + 1);
        const View in = x.view().at(off), dy = d.view().at(off);
        const View a = found.view().at(off), b = expected.view().at(off);
        const auto compare = [&](const char* name, auto kernel, auto twin) {
          kernel(a);
          device.wait();
          twin(b);
          found.put_at(off == 0 ? n : 0, 1);
          expected.put_at(off == 0 ? n : 0, 1);
          check_close(name, found, expected, t);
        };
        for (const Activation form : {Activation::gelu_tanh, Activation::gelu_erf}) {
          compare("gelu", [&](View y) { cuda::gelu(q, y, in, n, form); },
                  [&](View y) { exec::host::gelu(y, in, n, form); });
          compare("gelu_gradient", [&](View y) { cuda::gelu_gradient(q, y, dy, in, n, form); },
                  [&](View y) { exec::host::gelu_gradient(y, dy, in, n, form); });
        }
        compare("relu", [&](View y) { cuda::relu(q, y, in, n); },
                [&](View y) { exec::host::relu(y, in, n); });
        compare("relu_gradient", [&](View y) { cuda::relu_gradient(q, y, dy, in, n); },
                [&](View y) { exec::host::relu_gradient(y, dy, in, n); });
        compare("add", [&](View y) { cuda::add(q, y, dy, in, n); },
                [&](View y) { exec::host::add(y, dy, in, n); });
      }
    }
}

TEST_CASE("an activation in place is its host twin") {
  Random r(12);
  for (const DType t : kTypes)
    for (const Activation act : {Activation::tanh, Activation::relu, Activation::gelu_tanh}) {
      Device device;
      Buffer z = random(r, t, 333, 2), twin = z;
      cuda::activate(device.queue(), z, act, 333);
      device.wait();
      exec::host::activate(twin, act, 333);
      check_close("activate", z, twin, t);
      if (act == Activation::gelu_tanh) continue;
      Buffer dy = random(r, t, 333), dy_twin = dy;
      cuda::activate_gradient(device.queue(), dy, z, act, 333);
      device.wait();
      exec::host::activate_gradient(dy_twin, z, act, 333);
      check_close("activate_gradient", dy, dy_twin, t);
    }
}

TEST_CASE("gated activations are their host twins") {
  Random r(13);
  using models::OpKind;
  for (const DType t : kTypes)
    for (const OpKind kind : {OpKind::swiglu, OpKind::geglu, OpKind::clamped_swiglu})
      for (const std::int64_t n : {5, 48, 129}) {
        const std::int64_t rows = 7;
        Device device;
        // Some beyond the limits of the clamped gate.
        Buffer x = random(r, t, 2 * rows * n, 8), dy = random(r, t, rows * n);
        Buffer y(t, rows * n), y_twin(t, rows * n), dx(t, 2 * rows * n), dx_twin(t, 2 * rows * n);
        cuda::gated(device.queue(), y, x, rows, n, kind);
        cuda::gated_gradient(device.queue(), dx, dy, x, rows, n, kind);
        device.wait();
        exec::host::gated(y_twin, x, rows, n, kind);
        exec::host::gated_gradient(dx_twin, dy, x, rows, n, kind);
        check_close("gated", y, y_twin, t);
        check_close("gated_gradient", dx, dx_twin, t);
      }
}

TEST_CASE("functions of one element with a factor are their host twins") {
  Random r(15);
  using models::OpKind;
  const exec::host::UnaryForm form{Activation::identity, 1.75};
  for (const DType t : kTypes)
    for (const std::int64_t n : {1, 333, 2049}) {
      Device device;
      const cuda::Queue q = device.queue();
      Buffer x = random(r, t, n, 3), dy = random(r, t, n);
      for (const OpKind kind : {OpKind::relu_squared, OpKind::soft_cap}) {
        Buffer y(t, n), y_twin(t, n), dx(t, n), dx_twin(t, n);
        cuda::unary(q, y, x, n, kind, form);
        cuda::unary_gradient(q, dx, dy, x, n, kind, form);
        device.wait();
        exec::host::unary(y_twin, x, n, kind, form);
        exec::host::unary_gradient(dx_twin, dy, x, n, kind, form, false);
        check_close("unary", y, y_twin, t);
        check_close("unary_gradient", dx, dx_twin, t);
      }
      Buffer scaled(t, n), twin = x;
      cuda::scale(q, scaled, x, 1.75, n);
      device.wait();
      exec::host::scale(twin, 1.75, n);
      CHECK(scaled == twin);
    }
}

TEST_CASE("casts and sums between types round as the host does, bit for bit") {
  Random r(14);
  for (const DType from : kTypes)
    for (const DType to : kTypes) {
      const std::int64_t n = 1003;
      Device device;
      Buffer x = random(r, from, n, 5), into = random(r, to, n), into_twin = into;
      cuda::add_into(device.queue(), into, x, n);
      Buffer y(to, n), y_twin(to, n);
      if (from != to) cuda::cast(device.queue(), y, x, n);
      device.wait();
      exec::host::add_into(into_twin, x, n);
      INFO(core::name(from) << " to " << core::name(to));
      CHECK(into == into_twin);
      if (from == to) continue;
      exec::host::cast(y_twin, x, n);
      CHECK(y == y_twin);
    }
}

TEST_CASE("reductions over ranks keep a NaN and wrap integers, as the host's do") {
  Random r(15);
  for (const DType t : kTypes) {
    Device device;
    Buffer a = random(r, t, 99), b = random(r, t, 99), sum(t, 99), max(t, 99), twin(t, 99);
    b.put_at(5, std::nan(""));
    cuda::combine(device.queue(), sum, a, b, program::ReduceOp::sum, 99);
    cuda::combine(device.queue(), max, a, b, program::ReduceOp::max, 99);
    device.wait();
    for (std::int64_t i = 0; i < 99; ++i) {
      if (i == 5) {
        CHECK(std::isnan(sum.at(i)));
        CHECK(std::isnan(max.at(i)));
        continue;
      }
      CHECK(max.at(i) == std::max(a.at(i), b.at(i)));
    }
  }
}
