#include <cmath>
#include <cstring>
#include <limits>

#include "exec/host/matrix_codes.hpp"
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
namespace host = exec::host;
using planner::OptimizerKind;

namespace {

struct State {
  Buffer weight, master, gradient;
  std::vector<Buffer> slots;
  std::vector<View> views() {
    std::vector<View> all;
    for (Buffer& b : slots) all.push_back(b);
    return all;
  }
  host::Parameters parameters(bool has_master, std::int64_t n) {
    host::Parameters p;
    p.weight = weight;
    if (has_master) p.master = master;
    p.gradient = gradient;
    p.n = n;
    p.decays = true;
    return p;
  }
};

// Codes that differ by one where a quotient lies next to the middle of two.
std::int64_t codes_apart(const Buffer& a, const Buffer& b) {
  std::int64_t apart = 0;
  for (std::size_t i = 0; i < a.bytes().size(); ++i)
    apart += std::abs(int{a.bytes()[i]} - int{b.bytes()[i]});
  return apart;
}

}  // namespace

TEST_CASE("every optimizer is its host twin over three steps, with and without a master copy") {
  Random r(31);
  const std::int64_t n = 1000;
  for (const planner::Optimizer& o : planner::optimizers())
    for (const bool has_master : {false, true}) {
      const DType t = has_master ? DType::bf16 : DType::f32;
      State a{random(r, t, n), random(r, f32, n), random(r, t, n), {}};
      const auto slots = static_cast<std::size_t>(o.first_moments + o.second_moments);
      for (std::size_t k = 0; k < slots; ++k)
        a.slots.push_back(o.quantised ? Buffer(DType::u8, n) : zeros(f32, n));
      for (std::size_t k = 0; o.quantised && k < slots; ++k) a.slots.push_back(zeros(f32, 4));
      State b = a;
      Device device;
      Buffer squares(f64, Values{9.0});  // a norm of 3
      for (std::int64_t step = 1; step <= 4; ++step) {
        const exec::Hyper hyper = exec::default_hyper(o.kind);
        const auto va = a.views(), vb = b.views();
        host::Parameters pa = a.parameters(has_master, n), pb = b.parameters(has_master, n);
        for (host::Parameters* p : {&pa, &pb})
          if (step > 1) p->squares = static_cast<const double*>(squares.view().data);
        pa.clip = pb.clip = step == 2 ? 4.0 : 0.5;
        cuda::update(device.queue(), o.kind, hyper, step, pa, va, device.maps());
        device.wait();
        host::update(o.kind, hyper, step, pb, vb);
        a.gradient = b.gradient = random(r, t, n);
      }
      INFO(o.name << (has_master ? " with a master" : ""));
      check_close("weight", a.weight, b.weight, t);
      if (has_master) check_close("master", a.master, b.master, f32);
      for (std::size_t k = 0; k < a.slots.size(); ++k) {
        if (o.quantised && k < slots)
          CHECK(codes_apart(a.slots[k], b.slots[k]) <= n / 100);
        else
          check_close("slot", a.slots[k], b.slots[k], f32);
      }
    }
}

// Of every size about the eight elements of a thread and the 2048 of a block, and of types that
// follow each other as they like: no element is left out, and none is another parameter's.
TEST_CASE("many parameters updated by one call are their host twins") {
  Random r(33);
  const exec::Hyper hyper = exec::default_hyper(OptimizerKind::adamw);
  std::vector<State> a, b;
  std::vector<bool> masters;
  for (std::int64_t i = 0; i < 130; ++i) {
    const std::int64_t n = i % 13 == 0 ? 2041 + i : 1 + i;
    const bool master = i % 5 != 4;
    const DType weight = master ? DType::bf16 : f32,
                gradient = i % 17 == 16 ? f64 : i > 100 ? f32 : weight;
    State own{random(r, weight, n), random(r, f32, n), random(r, gradient, n), {}};
    for (int k = 0; k < 2; ++k) own.slots.push_back(zeros(f32, n));
    a.push_back(own);
    b.push_back(own);
    masters.push_back(master);
  }
  Device device;
  for (std::int64_t step = 1; step <= 2; ++step) {
    std::vector<cuda::ParameterUpdate> all;
    for (std::size_t i = 0; i < a.size(); ++i) {
      all.push_back({a[i].parameters(masters[i], a[i].weight.size()), a[i].views()});
      all.back().parameters.decays = i % 3 > 0;
      host::Parameters twin = b[i].parameters(masters[i], b[i].weight.size());
      twin.decays = i % 3 > 0;
      host::update(OptimizerKind::adamw, hyper, step, twin, b[i].views());
    }
    cuda::update(device.queue(), OptimizerKind::adamw, hyper, step, all, device.maps());
    device.wait();
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("parameter " << i);
    check_close("weight", a[i].weight, b[i].weight, masters[i] ? DType::bf16 : f32);
    for (std::size_t k = 0; k < 2; ++k) check_close("slot", a[i].slots[k], b[i].slots[k], f32);
  }
}

TEST_CASE("a loss scale and what it skips are the host's, bit by bit") {
  using exec::host::LossScaleState;
  Random r(32);
  const std::int64_t n = 1000;
  for (const planner::Optimizer& o : planner::optimizers()) {
    const exec::Hyper hyper = exec::default_hyper(o.kind);
    const auto slots = static_cast<std::size_t>(o.first_moments + o.second_moments);
    State a{random(r, DType::f16, n), random(r, f32, n), random(r, DType::f16, n), {}};
    for (std::size_t k = 0; k < slots; ++k)
      a.slots.push_back(o.quantised ? Buffer(DType::u8, n) : zeros(f32, n));
    for (std::size_t k = 0; o.quantised && k < slots; ++k) a.slots.push_back(zeros(f32, 4));
    State b = a;
    Device device;
    Buffer kept = zeros(f64, planner::LossScale::kElements), squares = zeros(f64, 1);
    auto* const state = static_cast<LossScaleState*>(kept.view().data);
    auto* const square = static_cast<double*>(squares.view().data);
    state->scale = 1024;
    LossScaleState twin = *state;
    const host::LossScaleRule rule = host::loss_scale_rule({1024, 2}, 0.5, hyper);
    for (const double now : {4e6, std::numeric_limits<double>::infinity(), 1e5, 9e5}) {
      *square = now;
      cuda::step_loss_scale(device.queue(), state, square, rule);
      device.wait();
      twin = host::stepped(twin, std::sqrt(now), rule);
      CHECK(std::memcmp(&twin, state, sizeof twin) == 0);
      const auto va = a.views(), vb = b.views();
      host::Parameters pa = a.parameters(true, n), pb = b.parameters(true, n);
      pa.loss_scale = state;
      pb.loss_scale = &twin;
      cuda::update(device.queue(), o.kind, hyper, 1, pa, va, device.maps());
      device.wait();
      host::update(o.kind, hyper, 1, pb, vb);
      a.gradient = b.gradient = random(r, DType::f16, n);
    }
    CHECK(state->updates == 3);
    INFO(o.name);
    check_close("weight", a.weight, b.weight, DType::f16);
    check_close("master", a.master, b.master, f32);
  }
}

TEST_CASE("stochastic rounding goes to a neighbour, and to the value on average") {
  const std::int64_t n = 4096;
  Device device;
  // 1 + 2^-9 lies a quarter of the way from 1 to its neighbour 1 + 2^-7.
  Buffer weight(DType::bf16, Values(n, 1.0)), gradient(f32, Values(n, -0x1p-9));
  host::Parameters p;
  p.weight = weight;
  p.gradient = gradient;
  p.n = n;
  const exec::Hyper hyper{.learning_rate = 1.0};
  Buffer to_nearest = weight;
  cuda::update(device.queue(), OptimizerKind::sgd, hyper, 1, p, {}, nullptr, 77);
  device.wait();
  std::int64_t up = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    CHECK((weight.at(i) == 1.0 || weight.at(i) == 1.0 + 0x1p-7));
    up += weight.at(i) > 1.0;
  }
  // Binomial, n p = 1024, standard deviation 27.7: five of them.
  CHECK(std::abs(static_cast<double>(up) - 1024.0) < 140);
  p.weight = to_nearest;
  cuda::update(device.queue(), OptimizerKind::sgd, hyper, 1, p, {}, nullptr);
  device.wait();
  CHECK(to_nearest.at(0) == 1.0);
}

TEST_CASE("the norm of gradients is the root of a sum that no order changes") {
  Random r(32);
  for (const DType t : kTypes) {
    Device device;
    Buffer x = random(r, t, 5000), sum(f64, Values{2.0}), again = sum;
    cuda::add_squares(device.queue(), static_cast<double*>(sum.view().data), x, 5000);
    cuda::add_squares(device.queue(), static_cast<double*>(again.view().data), x, 5000);
    device.wait();
    double expected = 2.0;
    for (const double v : x.values()) expected += v * v;
    CHECK(sum.at(0) == Approx(expected).epsilon(1e-13));
    CHECK(sum == again);
  }
}

TEST_CASE("frozen matrices are decoded to the bits of the host") {
  Random r(33);
  const std::vector<std::int64_t> shape{33, 70};
  const std::int64_t n = 33 * 70;
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = static_cast<float>(r());
  for (const auto kind : {planner::Quantization::int8, planner::Quantization::nf4}) {
    const std::int64_t bytes = planner::quantised_bytes(kind, shape).value();
    std::pmr::vector<std::byte> codes(static_cast<std::size_t>(bytes));  // read by the device
    host::encode_matrix(kind, values, shape, codes.data());
    for (const DType t : kTypes) {
      Device device;
      Buffer y(t, n), y2 = y;
      cuda::decode_matrix(device.queue(), kind, codes.data(), y, n, bytes, device.maps());
      device.wait();
      host::decode_matrix(kind, codes.data(), y2, n, bytes);
      INFO(static_cast<int>(kind) << " " << core::name(t));
      CHECK(y == y2);
    }
  }
}
