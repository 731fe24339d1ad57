// What products of experts cost beside their kernels.
#include <vector>

#include "tests/catch.hpp"
#include "tests/unit/cost/action_fixture.hpp"

using cost_test::Fixture;
using program::Action;
using program::ActionKind;

TEST_CASE("casts to 8 bits are of the rows that experts share, not of all rows for each") {
  Fixture f;
  f.machine.narrow_gemms = core::DType::f8;
  f.machine.narrow_cast = 4;
  models::Operator& op = f.rank.operators[0];
  op.kind = models::OpKind::expert_linear;
  op.groups = 8;
  const Action product = f.action(ActionKind::forward, 0, 0, 1);
  const double cast = f.seconds(product);
  f.machine.narrow_cast = 0;
  // 64 x 2 rows of 512, 4 bytes each at 1 TB/s.
  CHECK(cast - f.seconds(product) == Approx(64 * 2 * 512 * 4 / 1e12).epsilon(1e-3));
}

TEST_CASE("a product of experts waits for its host, whatever its kernel takes") {
  Fixture f;
  models::Operator& op = f.rank.operators[0];
  const Action product = f.action(ActionKind::forward, 0, 0, 1);
  f.machine.host.experts = core::Seconds{600e-6};
  const double dense = f.seconds(product);
  op.kind = models::OpKind::expert_linear;
  CHECK(f.seconds(product) - dense == Approx(600e-6).epsilon(1e-3));
}

TEST_CASE("the last bias of experts and the clamps of their gate move bytes of their own") {
  Fixture f;
  models::Operator& product = f.rank.operators.front();
  product.kind = models::OpKind::expert_linear;
  models::Operator& gate = f.rank.operators.back();
  gate.kind = models::OpKind::clamped_swiglu;
  const auto all = [&](std::uint16_t op) {
    std::vector<double> seconds;
    for (const ActionKind kind :
         {ActionKind::forward, ActionKind::input_gradient, ActionKind::weight_gradient})
      seconds.push_back(f.seconds(f.action(kind, op, 0, 2)));
    return seconds;
  };
  const auto one_kernel = all(0);
  const double gate_alone = f.seconds(f.action(ActionKind::forward, 1, 0, 1));
  f.machine.expert_bias_forward = 28;
  f.machine.expert_bias_backward = 40;
  CHECK(all(0) == one_kernel);         // of another product than the last, or without biases
  product.adds_last_bias = true;
  const auto apart = all(0);
  const double elements = 2 * 64 * 1024;
  CHECK(apart[0] - one_kernel[0] == Approx(28 * elements / 1e12));
  CHECK(apart[1] - one_kernel[1] == Approx(40 * elements / 1e12));
  CHECK(apart[2] == one_kernel[2]);
  f.machine.gated_traffic = 1.5;
  const double gated = f.seconds(f.action(ActionKind::forward, 1, 0, 1));
  f.machine.clamp_traffic = 2.25;
  const double clamped = f.seconds(f.action(ActionKind::forward, 1, 0, 1));
  CHECK((clamped - gated) / (gated - gate_alone) == Approx(2.25 / 0.5));
}
