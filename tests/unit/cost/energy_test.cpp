#include "sim/cost/energy.hpp"

#include "tests/catch.hpp"

using namespace cost;

namespace {
hw_profiles::Gpu card() {
  hw_profiles::Gpu gpu;
  gpu.tdp = hw_profiles::Watts(500);
  gpu.price = hw_profiles::DollarsPerHour(2);
  return gpu;
}
}  // namespace

TEST_CASE("a GPU draws its board power while busy and 12 % of it while waiting") {
  // 3 s busy, 1 s waiting: 500 W x (3 + 0.12) = 1560 J.
  CHECK(energy(card(), core::Seconds(4), core::Seconds(3))->value() == Approx(1560));
  CHECK(energy(card(), core::Seconds(4), core::Seconds(4))->value() == Approx(2000));
  CHECK(energy(card(), core::Seconds(4), core::Seconds(0))->value() == Approx(240));
}

TEST_CASE("training takes steps in proportion to tokens, and every GPU is paid for") {
  // 1000 steps of 3.6 s on 8 GPUs: 3600 s, 8 GPU hours, 16 USD; 500 W x (1.8 + 0.12 x 1.8) = 1008 J
  // a step and GPU: 8.064 MJ.
  const Training t =
      training(card(), 8, 1'000'000, 1000, core::Seconds(3.6), core::Seconds(1.8));
  CHECK(t.seconds.value() == Approx(3600));
  CHECK(t.gpu_hours == Approx(8));
  CHECK(t.cost->value() == Approx(16));
  CHECK(t.energy->value() == Approx(8.064e6));
  const Training half =
      training(card(), 8, 500'000, 1000, core::Seconds(3.6), core::Seconds(1.8));
  CHECK(half.energy->value() == Approx(t.energy->value() / 2));
}

TEST_CASE("what a profile does not state stays unknown") {
  const Training t = training({}, 8, 1000, 1000, core::Seconds(1), core::Seconds(1));
  CHECK_FALSE(t.cost);
  CHECK_FALSE(t.energy);
  CHECK(t.gpu_hours > 0);
}
