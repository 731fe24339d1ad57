#include "sim/cost/kernel.hpp"

#include "core/random.hpp"
#include "tests/catch.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"

using namespace cost;
using core::DType;

TEST_CASE("a large GEMM of whole waves runs at the sustained fraction of the peak") {
  // 8192 / 128 = 64, so 64 x 64 = 4096 tiles in exactly 64 waves of 64.
  // 2 x 8192^3 = 1.0995e12 FLOPs at 0.5 x 100e12 = 21.990 ms.
  const GemmShape shape{8192, 8192, 8192};
  CHECK(gemm_efficiency(shape, DType::bf16, round_machine()) == Approx(0.5));
  CHECK(gemm_time(shape, DType::bf16, round_machine()).value() == Approx(2.199023e-2));
}

TEST_CASE("a ragged last wave costs half of what it leaves idle") {
  // 65 tiles on 64 multiprocessors: 2 waves, 65 / 128 filled; 1 - (1 - 0.5078) / 2 = 0.7539.
  const GemmShape shape{65 * 128, 128, 1024};
  CHECK(gemm_efficiency(shape, DType::bf16, round_machine()) == Approx(0.5 * 0.75390625));
}

TEST_CASE("the K loop loses K0 steps to its prologue") {
  Machine machine = round_machine();
  machine.gemm_prologue_k = 128;
  const GemmShape shape{8192, 8192, 384};
  CHECK(gemm_efficiency(shape, DType::bf16, machine) == Approx(0.5 * 384.0 / 512.0));
}

TEST_CASE("a thin GEMM is bound by memory") {
  // M = 1: moves about N K elements: 4096 x 4096 x 2 B = 33.57 MB at 1 TB/s = 33.6 us; compute
  // would take 2 x 4096^2 / (50e12 x fill).
  const GemmShape shape{1, 4096, 4096};
  const double bytes = 2.0 * (4096.0 * 4096 + 4096 + 4096);
  CHECK(gemm_time(shape, DType::bf16, round_machine()).value() == Approx(bytes / 1e12));
}

TEST_CASE("attention halves the square and grows into its rate with the sequence") {
  // 1e12 / 2 at 100e12 x 0.5 x 256/512 = 25e12: 20 ms.
  CHECK(attention_time({core::Flops{1e12}, 256, 128}, DType::bf16, core::Bytes{0}, round_machine())
            .value() == Approx(2e-2));
  // Heads of 64: 0.85 of that rate.
  CHECK(attention_time({core::Flops{1e12}, 256, 64}, DType::bf16, core::Bytes{0}, round_machine())
            .value() == Approx(2e-2 / 0.85));
  // Each pass has its rate, and its part of that for narrow heads.
  Machine apart = round_machine();
  apart.attention_backward = 0.25, apart.narrow_backward = 1.5;
  const auto pass = [&](std::int64_t head_dim, bool forward) {
    return attention_time({core::Flops{1e12}, 256, head_dim, forward}, DType::bf16, core::Bytes{0},
                          apart).value();
  };
  CHECK(pass(128, true) == Approx(2e-2));
  CHECK(pass(128, false) == Approx(4e-2));
  CHECK(pass(64, true) == Approx(2e-2 / 0.85));
  CHECK(pass(64, false) == Approx(4e-2 / 1.5));
  // In f32 without tensor cores: a share of its own of the peak, whatever the shape.
  Machine vectors = round_machine();
  vectors.attention_f32 = 0.05;
  CHECK(attention_time({core::Flops{1e12}, 256, 64}, DType::f32, core::Bytes{0}, vectors).value() ==
        Approx(0.5e12 / 5e12));
  CHECK(attention_time({core::Flops{1e12}, 256, 128}, DType::bf16, core::Bytes{0}, vectors)
            .value() == Approx(2e-2));
  // This executor's of the widest heads, where no library has the mask: of the f32 peak, 0.044
  // forward and 0.026 backward.
  const double peak = round_machine().peak[static_cast<std::size_t>(DType::f32)].value();
  for (const bool forward : {true, false})
    CHECK(attention_time({.flops = core::Flops{1e12}, .seq_len = 256, .head_dim = 256,
                          .forward = forward, .on_vectors = true},
                         DType::bf16, core::Bytes{0}, round_machine()).value() ==
          Approx(0.5e12 / (peak * (forward ? 0.044 : 0.026))));
}

TEST_CASE("attention without a mask computes the whole square, in whole tiles of 128") {
  const auto pass = [](std::int64_t tokens, bool causal) {
    return attention_time({.flops = core::Flops{1e12}, .seq_len = tokens, .head_dim = 128,
                           .causal = causal}, DType::bf16, core::Bytes{0}, round_machine()).value();
  };
  CHECK(pass(256, false) == Approx(1e12 / 50e12));
  CHECK(pass(192, false) == Approx(1e12 / 50e12 * 256 / 192));
  CHECK(pass(256, true) == Approx(0.5e12 / 50e12 * 2));  // tiles on the diagonal are half in vain
}

TEST_CASE("this executor's own attention on tensor cores has rates of its own") {
  const auto pass = [](std::int64_t head_dim, bool forward) {
    return attention_time({.flops = core::Flops{1e12}, .seq_len = 256, .head_dim = head_dim,
                           .forward = forward, .own = true},
                          DType::bf16, core::Bytes{0}, round_machine()).value();
  };
  const double long_sequence = 0.5e12 / 100e12 * 2;  // half of it in vain at 256 tokens
  CHECK(pass(128, true) == Approx(long_sequence / 0.28));
  CHECK(pass(128, false) == Approx(long_sequence / 0.169));
  CHECK(pass(64, true) == Approx(long_sequence / 0.28 / 0.92));
  CHECK(pass(64, false) == Approx(long_sequence / 0.169 / 1.1));
}

TEST_CASE("an offloaded update goes through the host's memory, or over the GPU's bus") {
  Machine machine = round_machine();   // four GPUs in a node
  machine.host_memory = core::BytesPerSecond(25e9);
  machine.host_link = core::BytesPerSecond(50e9);
  const core::Bytes moved(1'000'000'000);
  CHECK(offloaded_update_time(moved, 1, machine).value() == Approx(1 / 25.0));
  machine.updates_over_bus = true;
  CHECK(offloaded_update_time(moved, 1, machine).value() == Approx(1 / 50.0));  // the bus
  CHECK(offloaded_update_time(moved, 2, machine).value() == Approx(1 / 50.0));
  CHECK(offloaded_update_time(moved, 4, machine).value() == Approx(1 / 25.0));  // the memory
  CHECK(offloaded_update_time(moved, 64, machine).value() == Approx(1 / 25.0));
}

TEST_CASE("GEMM efficiency never passes the sustained fraction and grows no worse with K") {
  const std::uint64_t seed = 20260711;
  INFO("seed " << seed);
  const core::Random random(seed, 0);
  std::uint64_t draws = 0;
  Machine machine = round_machine();
  machine.gemm_prologue_k = 128;
  for (int i = 0; i < 1000; ++i) {
    const auto size = [&] { return 1 + static_cast<std::int64_t>(random.below(draws++, 20'000)); };
    const GemmShape shape{size(), size(), size()};
    GemmShape longer = shape;
    longer.k *= 2;
    const double e = gemm_efficiency(shape, DType::bf16, machine);
    CHECK(e > 0);
    CHECK(e <= 0.5);
    CHECK(gemm_efficiency(longer, DType::bf16, machine) >= e);
  }
}

TEST_CASE("a host copy starts in 30 us and moves at the bandwidth of PCIe") {
  Machine machine;
  machine.host_link = core::BytesPerSecond(24e9);
  const auto t = host_copy_time(core::Bytes(24'000'000), machine);  // 1000 us
  CHECK(t.value() == 1'030'000'000);
}
