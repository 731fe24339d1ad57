// The loss scale of fp16: its rule step by step, and updates by gradients that it multiplied.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "exec/host/kernels.hpp"
#include "exec/host/optimizers.hpp"
#include "exec/training/hyper.hpp"
#include "tests/catch.hpp"

using namespace exec::host;
using core::DType;
using planner::OptimizerKind;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

LossScaleRule rule(std::int64_t interval, double clip = 0) {
  return loss_scale_rule({65'536, interval}, clip, exec::default_hyper(OptimizerKind::adamw));
}

}  // namespace

TEST_CASE("a loss scale is halved by gradients that overflow and doubled after steps without") {
  LossScaleState s{.scale = 65'536};
  for (const double norm : {kInfinity, kNaN, -kInfinity}) {
    s = stepped(s, norm, rule(3));
    CHECK(s.factor == 0);
    CHECK(s.updates == 0);
  }
  CHECK(s.scale == 8'192);
  for (int step = 0; step < 2; ++step) s = stepped(s, 5.0, rule(3));
  CHECK(s.scale == 8'192);
  CHECK(s.factor == 1 / 8'192.0);
  s = stepped(s, 5.0, rule(3));
  CHECK(s.scale == 16'384);
  CHECK(s.factor == 1 / 8'192.0);      // of the gradients that the old one multiplied
  CHECK(s.updates == 3);
  s = stepped(stepped(s, 1.0, rule(3)), kNaN, rule(3));
  CHECK(s.since == 0);
  for (int step = 0; step < 100; ++step) s = stepped(s, kNaN, rule(3));
  CHECK(s.scale == 1);
  for (int step = 0; step < 300; ++step) s = stepped(s, 0.0, rule(3));
  CHECK(s.scale == planner::kMostLossScale);
}

TEST_CASE("a fixed loss scale stays, and steps that overflow are left out all the same") {
  LossScaleState s{.scale = 1'024};
  s = stepped(s, kInfinity, rule(0));
  CHECK(s.scale == 1'024);
  CHECK(s.factor == 0);
  for (int step = 0; step < 5'000; ++step) s = stepped(s, 1.0, rule(0));
  CHECK(s.scale == 1'024);
  CHECK(s.updates == 5'000);
}

TEST_CASE("moments are corrected by the updates that were made, not by steps") {
  const exec::Hyper h = exec::default_hyper(OptimizerKind::adamw);
  LossScaleState s{.scale = 2};
  for (int step = 1; step <= 9; ++step) s = stepped(s, step % 3 == 0 ? kNaN : 1.0, rule(0));
  CHECK(s.updates == 6);
  CHECK(s.correction1 == Approx(1 - std::pow(h.beta1, 6)).epsilon(1e-12));
  CHECK(s.correction2 == Approx(1 - std::pow(h.beta2, 6)).epsilon(1e-12));
}

TEST_CASE("a norm is limited as that of the true gradients") {
  const LossScaleState s = stepped({.scale = 1'024}, 1'024 * 4.0, rule(0, 1.0));
  CHECK(s.factor == (1.0 / (4.0 + 1e-6)) / 1'024);
  CHECK(stepped({.scale = 1'024}, 1'024 * 0.5, rule(0, 1.0)).factor == 1 / 1'024.0);
}

TEST_CASE("an update by gradients times a power of two is that by the gradients, bit by bit") {
  constexpr std::int64_t kElements = 600;
  for (const planner::Optimizer& o : planner::optimizers()) {
    std::vector<float> weight, gradient;
    for (int i = 0; i < kElements; ++i) {
      weight.push_back(0.01F * static_cast<float>(i - 200));
      gradient.push_back(0.001F * static_cast<float>((i * 37) % 101 - 50));
    }
    std::vector<float> scaled_weight = weight, scaled = gradient;
    for (float& g : scaled) g *= 4'096;
    const auto slots = static_cast<std::size_t>(o.first_moments + o.second_moments);
    // Bits of floats, or of codes.
    using Kept = std::vector<std::vector<std::uint32_t>>;
    Kept kept(2 * slots, std::vector<std::uint32_t>(kElements)), scaled_kept = kept;
    const auto views = [&](Kept& of) {
      std::vector<View> all;
      for (std::size_t i = 0; i < slots; ++i)
        all.push_back({of[i].data(), o.quantised ? DType::u8 : DType::f32});
      for (std::size_t i = slots; o.quantised && i < 2 * slots; ++i)
        all.push_back({of[i].data(), DType::f32});
      return all;
    };
    const exec::Hyper h = exec::default_hyper(o.kind);
    LossScaleState s{.scale = 4'096};
    const auto step = [&](double norm, std::int64_t number) {
      s = stepped(s, norm, loss_scale_rule({4'096, 0}, 0, h));
      update(o.kind, h, number,
             {.weight = {scaled_weight.data(), DType::f32}, .gradient = {scaled.data(), DType::f32},
              .n = kElements, .decays = true, .loss_scale = &s},
             views(scaled_kept));
    };
    step(kInfinity, 1);                // nothing
    INFO(o.name);
    CHECK(scaled_weight == weight);
    CHECK(scaled_kept == kept);
    update(o.kind, h, 1,
           {.weight = {weight.data(), DType::f32}, .gradient = {gradient.data(), DType::f32},
            .n = kElements, .decays = true},
           views(kept));
    step(1.0, 2);                      // the second step, and the first update
    CHECK(scaled_weight == weight);
    CHECK(scaled_kept == kept);
  }
}

TEST_CASE("a loss scale multiplies the gradient of a loss and not the loss") {
  const double more = 256;
  double loss[2] = {};
  std::vector<float> y[2] = {{1, 2, 3}, {1, 2, 3}}, target{3, 1, 2};
  for (const int scaled : {0, 1})
    squared_error(&loss[scaled], {y[scaled].data(), DType::f32}, {target.data(), DType::f32}, 3,
                  {0.25, scaled == 1 ? &more : nullptr});
  CHECK(loss[0] == loss[1]);
  for (std::size_t i = 0; i < 3; ++i) CHECK(y[1][i] == 256 * y[0][i]);

  std::vector<float> logits[2] = {{1, 2, 3, 4}, {1, 2, 3, 4}};
  const LogitShape s{.rows = 1, .columns = 4, .ld = 4, .first_column = 0, .vocab = 4};
  std::int32_t id = 2;
  loss[0] = loss[1] = 0;
  for (const int scaled : {0, 1}) {
    float max = 0, sums[2] = {};
    const View l{logits[scaled].data(), DType::f32}, m{&max, DType::f32}, sum{sums, DType::f32};
    softmax_max(m, l, s);
    softmax_sum(sum, l, m, {&id, DType::i32}, s);
    cross_entropy(&loss[scaled], l, m, sum, {&id, DType::i32}, s,
                  {0.5, scaled == 1 ? &more : nullptr});
  }
  CHECK(loss[0] == loss[1]);
  for (std::size_t i = 0; i < 4; ++i) CHECK(logits[1][i] == 256 * logits[0][i]);
}

TEST_CASE("gradients that fp16 cannot hold survive with a loss scale") {
  const LogitShape s{.rows = 1, .columns = 4, .ld = 4, .first_column = 0, .vocab = 4};
  std::int32_t id = 2;
  double loss = 0;
  // The mean over a step of 64 M tokens: each row's gradient is less than half of the least f16.
  const double mean = 1.0 / (1 << 26), more = 65'536;
  const auto gradients = [&](DType type, const double* scale) {
    std::vector<float> given{1, 2, 3, 4}, result(4);
    std::vector<std::byte> stored(16);
    const View l{stored.data(), type};
    cast(l, {given.data(), DType::f32}, 4);
    float max = 0, sums[2] = {};
    const View m{&max, DType::f32}, sum{sums, DType::f32};
    softmax_max(m, l, s);
    softmax_sum(sum, l, m, {&id, DType::i32}, s);
    cross_entropy(&loss, l, m, sum, {&id, DType::i32}, s, {mean, scale});
    cast({result.data(), DType::f32}, l, 4);
    return result;
  };
  const std::vector<float> exact = gradients(DType::f32, &more);
  const std::vector<float> scaled = gradients(DType::f16, &more);
  for (std::size_t i = 0; i < 4; ++i) CHECK(scaled[i] == Approx(exact[i]).epsilon(1e-3));
  CHECK(gradients(DType::f16, nullptr) == std::vector<float>(4));
}
