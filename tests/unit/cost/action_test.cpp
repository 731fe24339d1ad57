#include "sim/cost/action.hpp"

#include <cmath>

#include "hw_profiles/load.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/nccl.hpp"
#include "tests/catch.hpp"
#include "tests/unit/cost/action_fixture.hpp"

using namespace cost;
using cost_test::Fixture;
using core::DType;
using program::Action;
using program::ActionKind;

TEST_CASE("storage and fences take no time") {
  Fixture f;
  for (ActionKind kind : {ActionKind::alloc, ActionKind::free, ActionKind::fence})
    CHECK(f.seconds(f.action(kind, program::kNone, 0, 1)) == 0);
}

TEST_CASE("an elementwise operator moves its elements and its parameters") {
  // 2 samples x 65,536 + 1,024 elements of 2 bytes at 1 TB/s, and 1 us of launch.
  Fixture f;
  CHECK(f.seconds(f.action(ActionKind::forward, 1, 0, 1)) ==
        Approx(2.0 * (2 * 65536 + 1024) / 1e12 + 1e-6).epsilon(1e-6));
}

TEST_CASE("a micro-batch of another size scales what is per sample") {
  Fixture f;
  CHECK(f.seconds(f.action(ActionKind::forward, 1, 0, 1), 20) ==
        Approx(2.0 * (20 * 65536 + 1024) / 1e12 + 1e-6).epsilon(1e-6));
  // zero of an activation buffer of 65,536 elements at 2 samples, costed at 20.
  CHECK(f.seconds(f.action(ActionKind::zero, program::kNone, 0, 1), 20) ==
        Approx(655'360 * 2 / 1e12 + 1e-6).epsilon(1e-6));
}

TEST_CASE("an optimizer step reads and writes all but the gradient, which it reads") {
  // weights 4,000 x 2 + gradients 2,000 + state 4,000 x 2 = 18,000 bytes.
  Fixture f;
  CHECK(f.seconds(f.action(ActionKind::optimizer, program::kNone, 1, 3)) ==
        Approx(18'000 / 1e12 + 1e-6).epsilon(1e-6));
}

TEST_CASE("what a framework's host does once a step, it does with the first span alone") {
  Fixture f;
  const Action update = f.action(ActionKind::optimizer, program::kNone, 1, 3);
  const double kernel = f.seconds(update);
  f.machine.host.update = core::Seconds{3e-3};
  CHECK(f.seconds(update) == Approx(kernel + 3e-3));
  CHECK(f.seconds(update, 0, {0, 1, 0}) == Approx(kernel));
}

TEST_CASE("gradients that are added up in f32 beside cost 18 bytes each") {
  Fixture f;
  f.rank.operators[0].parameter_elements = 1024 * 512;
  const Action product = f.action(ActionKind::weight_gradient, 0, 0, 1);
  const double narrow = f.seconds(product);
  f.machine.wide_gradients = true;
  CHECK(f.seconds(product) == narrow);  // a rank without the buffer has nothing to add to
  f.add_buffer(program::Term::gradients, DType::f32, 1000);
  f.rank.buffers.back().name = program::kWideGradients;
  CHECK(f.seconds(product) == Approx(narrow + 18.0 * 1024 * 512 / 1e12).epsilon(1e-6));
  const Action other = f.action(ActionKind::input_gradient, 0, 0, 1);
  const double input = f.seconds(other);
  f.machine.wide_gradients = false;
  CHECK(f.seconds(other) == input);
}

TEST_CASE("a collective takes its wire time alone, without a launch") {
  // 1,000 bf16 over 4: 6 hops of 1 us and 3,000 bytes at 100 GB/s.
  Fixture f;
  CHECK(f.seconds(f.action(ActionKind::collective, 0, 2, 1)) ==
        Approx(6e-6 + 3'000 / 100e9).epsilon(1e-6));
}

TEST_CASE("the weight gradient's product is of rows length") {
  // n x k tiles = 8 x 4 = 32 of 64 multiprocessors, K = 128: half filled; 2 x 1024 x 512 x
  // 128 FLOPs at 100e12 x 0.5 x 0.75 = 3.58 us.
  Fixture f;
  const double flops = 2.0 * 1024 * 512 * 128;
  CHECK(f.seconds(f.action(ActionKind::weight_gradient, 0, 0, 1)) ==
        Approx(flops / (100e12 * 0.5 * 0.75) + 1e-6).epsilon(1e-6));
}

TEST_CASE("a convolution is the product of its windows in whole tiles, and moves its images") {
  // AlexNet's first on 2 samples: M = 2 x 55^2 = 6050, up to 6080; N = 48, up to 64; K = 3 x 11^2.
  // 48 tiles of 128 on 64 multiprocessors: 1 - (1 - 0.75) / 2 = 0.875 of 100e12 x 0.5.
  Fixture f;
  models::Operator& op = f.rank.operators[0];
  op.kind = models::OpKind::convolution;
  op.rows = 55 * 55;
  op.n = 48;
  op.k = 363;
  op.elements_forward = 3 * 224 * 224 + 48 * 55 * 55;
  op.parameter_elements = 48 * 363 + 48;
  CHECK(f.seconds(f.action(ActionKind::forward, 0, 0, 3)) ==
        Approx(2.0 * 6080 * 64 * 363 / (100e12 * 0.5 * 0.875) + 1e-6).epsilon(1e-6));
  // One channel on one sample: the images' bytes, not those of the windows, are what binds.
  op.k = 1;
  const double bytes = 2.0 * static_cast<double>(op.elements_forward + op.parameter_elements);
  CHECK(f.seconds(f.action(ActionKind::forward, 0, 0, 3), 1) ==
        Approx(bytes / 1e12 + 1e-6).epsilon(1e-6));
}

TEST_CASE("a GELU that its product computes costs the time of moving one tensor of 16 bits") {
  Fixture f;
  models::Operator& gelu = f.rank.operators[1];
  gelu.kind = models::OpKind::gelu;
  gelu.activation = models::Activation::gelu_tanh;
  gelu.rows = 64;
  gelu.n = 512;
  gelu.parameter_elements = 0;
  gelu.elements_backward = 3 * 64 * 512;
  const Action forward = f.action(ActionKind::forward, 1, 0, 2);
  const Action backward = f.action(ActionKind::input_gradient, 1, 0, 3);
  const double tensor = 2.0 * 2 * 64 * 512 / 1e12, launch = 1e-6;
  CHECK(f.seconds(forward) == Approx(2 * tensor + launch).epsilon(1e-4));
  CHECK(f.seconds(backward) == Approx(3 * tensor + launch).epsilon(1e-4));
  f.machine.gelu_in_product = true;
  CHECK(f.seconds(forward) == Approx(tensor + launch).epsilon(1e-4));
  CHECK(f.seconds(backward) == Approx(tensor + launch).epsilon(1e-4));
  gelu.activation = models::Activation::gelu_erf;  // products have the tanh form alone
  CHECK(f.seconds(forward) == Approx(2 * tensor + launch).epsilon(1e-4));
}

TEST_CASE("a bias's gradient, launches and what is added to cost time where kernels are our own") {
  Fixture f;
  models::Operator& linear = f.rank.operators[0];
  models::Operator& gelu = f.rank.operators[1];
  gelu.kind = models::OpKind::gelu;
  gelu.rows = 64, gelu.n = 512, gelu.elements_backward = 3 * 64 * 512;
  gelu.parameter_elements = 0;
  linear.parameters = {0};
  const Action weights = f.action(ActionKind::weight_gradient, 0, 0, 1);
  const double alone = f.seconds(weights);
  // d_y, x and d_x, of 2 x 64 x 512 elements of 2 bytes each.
  const auto d_y = static_cast<std::uint32_t>(f.rank.views.size());
  f.rank.views.insert(f.rank.views.end(), 3, program::View(f.rank.views.front()));
  Action gradient = f.action(ActionKind::input_gradient, 1, d_y, 3);
  const double tensor = 2.0 * 2 * 64 * 512 / 1e12, written = f.seconds(gradient);
  CHECK(written == Approx(3 * tensor + 1e-6).epsilon(1e-6));
  gradient.flags |= program::kAccumulate;
  CHECK(f.seconds(gradient) == written);  // other frameworks' rates have it
  f.machine.executor_kernels = true;
  f.machine.bias_gradient = 3;
  CHECK(f.seconds(weights) == alone);
  linear.parameters = {0, 1};
  // 3 bytes of 2 x 64 x 1024 elements, and two launches more.
  CHECK(f.seconds(weights) == Approx(alone + 3.0 * 2 * 64 * 1024 / 1e12 + 2e-6).epsilon(1e-6));
  // It reads what it adds to.
  CHECK(f.seconds(gradient) == Approx(written + tensor).epsilon(1e-6));
  // So it does in the counts, which have reading and writing apart.
  const ActionCost costs(f.program, f.rank, f.machine);
  CHECK(costs.traffic(gradient, {}).read.value() == 3 * 131'072);
  CHECK(costs.traffic(gradient, {}).written.value() == 131'072);
}

TEST_CASE("what this executor was measured at on a card holds for its own kernels there") {
  hw_profiles::Profile p = hw_profiles::find_profile("h200-sxm-141g").value();
  p.native.gemm_sustained = 0.7;
  p.native.attention_forward = 0.6, p.native.narrow_forward = 0.5;
  p.native.attention_backward = 0.2, p.native.narrow_backward = 1.5;
  p.native.memory_efficiency = 0.75;
  const Machine own = make_machine(p, {});
  CHECK(own.gemm_efficiency == 0.7);
  CHECK(own.attention_forward == 0.6);
  CHECK(own.attention_backward == 0.2);
  CHECK(own.narrow_forward == 0.5);
  CHECK(own.narrow_backward == 1.5);
  CHECK(own.memory.value() == Approx(0.75 * p.gpu.memory_bandwidth.value()));
  // If products take half of a step, the power limit allows a clock that is 2^(1/3) times as high.
  // gpu.gemm_efficiency, the rate of the fastest product that was measured, is the bound.
  p.native.gemm_sustained = 0.6;
  CHECK(make_machine(p, {.product_share = 0.5}).gemm_efficiency == Approx(0.6 * 1.259921));
  CHECK(make_machine(p, {.product_share = 0.2}).gemm_efficiency == p.gpu.gemm_efficiency);
  p.framework.executor_kernels = false;
  const Machine other = make_machine(p, {});
  CHECK(other.gemm_efficiency == p.gpu.gemm_sustained);
  CHECK(make_machine(p, {.product_share = 0.5}).gemm_efficiency == p.gpu.gemm_sustained);
  CHECK(other.attention_forward == p.gpu.attention_flash2);
  CHECK(other.attention_backward == p.gpu.attention_flash2);
  CHECK(other.narrow_forward == 0.85);
  CHECK(other.memory.value() ==
        Approx(p.gpu.memory_efficiency * p.gpu.memory_bandwidth.value()));
  // A card that nobody measured has the published rates.
  hw_profiles::Profile unmeasured = hw_profiles::find_profile("a100-sxm-80g").value();
  CHECK(make_machine(unmeasured, {}).executor_kernels);
  CHECK(make_machine(unmeasured, {}).gemm_efficiency == unmeasured.gpu.gemm_sustained);
  // The host has kernels of its own.
  CHECK_FALSE(make_machine(hw_profiles::find_profile("host").value(), {}).executor_kernels);
}

TEST_CASE("a kernel lasts at least what its host takes to issue it, and more where both blend") {
  Fixture f;
  const Action norm = f.action(ActionKind::forward, 1, 0, 1);
  const double kernel = f.seconds(norm) - 1e-6;
  f.machine.host.elementwise = core::Seconds{50e-6};
  CHECK(f.seconds(norm) == Approx(51e-6));
  f.machine.host.elementwise = core::Seconds{kernel};
  f.machine.launch_blend = 2;  // equal parts: sqrt 2 times either
  CHECK(f.seconds(norm) == Approx(std::sqrt(2.0) * kernel + 1e-6).epsilon(1e-4));
}

TEST_CASE("a tensor collective pays the ranks' waiting, and hides what its GEMM covers") {
  Fixture f;
  f.rank.transfers[0].what = program::Traffic::tensor;
  const Action reduce = f.action(ActionKind::collective, 0, 2, 1);
  const double wire = f.seconds(reduce);
  f.machine.exposed_tensor = 0.5;
  f.machine.collective_sync = core::Seconds{20e-6};
  CHECK(f.seconds(reduce) == Approx(wire / 2 + 20e-6));
  f.machine.exposed_overlapped = 0;
  f.rank.transfers[0].overlapped = true;
  CHECK(f.seconds(reduce) == Approx(20e-6));
}

TEST_CASE("rows travel beside a gradient's GEMM where the framework does so, as far as it lasts") {
  Fixture f;
  program::Transfer& rows = f.rank.transfers[0];
  rows.what = program::Traffic::sequence;
  const Action move = f.action(ActionKind::collective, 0, 2, 1);
  const double wire = f.seconds(move);
  const double gemm = f.seconds(f.action(ActionKind::weight_gradient, 0, 0, 1)) - 1e-6;
  rows.beside = 0;
  CHECK(f.seconds(move) == Approx(wire));  // our own executor's ranks take turns
  f.machine.hides_rows = true;
  f.machine.exposed_tensor = 1 + 2 * gemm / wire;
  CHECK(f.seconds(move) == Approx(wire + gemm));
  f.machine.exposed_tensor = 0.5 * gemm / wire;
  CHECK(f.seconds(move) == 0);
  rows.beside = program::kNone;
  CHECK(f.seconds(move) == Approx(0.5 * gemm));
}

TEST_CASE("fp8 takes the peak of 8 bits for products, never for the head") {
  Fixture f;
  const Action product = f.action(ActionKind::forward, 0, 0, 1);
  f.machine.peak[static_cast<std::size_t>(DType::f8)] = core::FlopsPerSecond{200e12};
  const double half = f.seconds(product) - 1e-6;
  f.machine.narrow_gemms = core::DType::f8;
  CHECK(f.seconds(product) - 1e-6 == Approx(half));  // of 16 bits that nothing casts
  f.machine.narrow_casts = true;
  CHECK(f.seconds(product) - 1e-6 == Approx(half / 2));
  f.rank.buffers[0].term = program::Term::logits;
  CHECK(f.seconds(product) - 1e-6 == Approx(half));
}

TEST_CASE("products in 8 bits cast their input and the gradient of their result") {
  Fixture f;
  const auto cast = [&](ActionKind kind) {
    const Action product = f.action(kind, 0, 0, 1);
    f.machine.narrow_cast = 0;
    const double without = f.seconds(product);
    f.machine.narrow_cast = 4;
    return f.seconds(product) - without;
  };
  // 2 samples x 64 rows, 512 -> 1024 wide, 4 bytes an element at 1 TB/s.
  CHECK(cast(ActionKind::forward) == Approx(2 * 64 * 512 * 4 / 1e12));
  CHECK(cast(ActionKind::input_gradient) == Approx(2 * 64 * 1024 * 4 / 1e12));
  CHECK(cast(ActionKind::weight_gradient) == 0);
  f.rank.buffers[0].term = program::Term::logits;
  CHECK(cast(ActionKind::forward) == 0);
}

TEST_CASE("scales of rows cost more casts than one of the tensor, and no faster products") {
  hw_profiles::Profile h100 = *hw_profiles::find_profile("h100-sxm-80g");
  const Machine own = make_machine(h100, {.fp8 = true});  // whose casts are actions
  CHECK(own.narrow_gemms);
  CHECK_FALSE(own.narrow_casts);
  CHECK(own.narrow_cast == 0);
  REQUIRE(hw_profiles::use_framework(h100, "megatron_core", "test").ok());
  const Machine plain = make_machine(h100, {.bf16 = true});
  const Machine tensor = make_machine(h100, {.fp8 = true});
  const Machine rows = make_machine(h100, {.fp8 = true, .fp8_rowwise = true});
  CHECK(plain.narrow_cast == 0);
  CHECK(tensor.narrow_gemms);
  CHECK(tensor.narrow_cast > 0);
  CHECK_FALSE(rows.narrow_gemms);
  CHECK(rows.narrow_cast > tensor.narrow_cast);
}

TEST_CASE("nvfp4 takes the peak of 4 bits, and casts that read twice") {
  hw_profiles::Profile gb200 = *hw_profiles::find_profile("gb200-186g");
  REQUIRE(hw_profiles::use_framework(gb200, "megatron_core", "test").ok());
  const Machine four = make_machine(gb200, {.bf16 = true, .nvfp4 = true});
  const Machine eight = make_machine(gb200, {.bf16 = true, .fp8 = true});
  REQUIRE(four.narrow_gemms == DType::f4);
  CHECK(four.narrow_casts);
  CHECK(four.narrow_cast == Approx(2 * 2 + 2 * (0.5 + 1.0 / 16)));
  const auto peak = [](const Machine& m, DType type) {
    return m.peak[static_cast<std::size_t>(type)].value();
  };
  CHECK(peak(four, DType::f4) == Approx(9000e12));
  const GemmShape shape{.m = 8192, .n = 8192, .k = 8192};
  const double ratio = gemm_time(shape, DType::f8, {}, eight).value() /
                       gemm_time(shape, DType::f4, {}, four).value();
  CHECK(ratio == Approx(peak(four, DType::f4) / peak(eight, DType::f8)));
  const Machine hopper = make_machine(*hw_profiles::find_profile("h100-sxm-80g"),
                                      {.bf16 = true, .nvfp4 = true});
  CHECK_FALSE(hopper.narrow_gemms);    // it has no such products; jobs are refused
}

TEST_CASE("a compiler makes one kernel of a norm, as a fused norm is") {
  hw_profiles::Profile a100 = *hw_profiles::find_profile("a100-sxm-80g");
  REQUIRE(hw_profiles::use_framework(a100, "fsdp2", "test").ok());
  // What torch's operators move for a weight of gptq, over what one kernel would.
  CHECK(make_machine(a100, {.quantization = "gptq"}).decode_traffic == Approx(1.5 * 16.5 / 2.5));
  CHECK(make_machine(a100, {.quantization = "nf4"}).decode_traffic == 1);
  const Machine eager = make_machine(a100, {.fused_norm = false});
  const Machine compiled = make_machine(a100, {.fused_norm = false, .compile = true});
  CHECK(eager.norm_traffic == a100.framework.traffic_norm);
  CHECK(compiled.norm_traffic == compiled.elementwise_traffic);
}

TEST_CASE("gradients that a kernel of its own adds up cost their bytes on every rank") {
  Fixture f;
  f.rank.operators[0].parameter_elements = 1024 * 512;
  const Action product = f.action(ActionKind::weight_gradient, 0, 0, 1);
  const double fused = f.seconds(product);
  f.machine.accumulate_traffic = 10;
  CHECK(f.seconds(product) == Approx(fused + 10.0 * 1024 * 512 / 1e12).epsilon(1e-6));
}

TEST_CASE("a host that runs ahead makes a block as long as its issue, and no longer") {
  // Products of less than 20 us beside what its issue takes: 50 us, and 30 of the block.
  Fixture f;
  f.machine.host.gemm = core::Seconds{50e-6};
  const Action product = f.action(ActionKind::forward, 0, 0, 1);
  const double bound = f.seconds(product);
  CHECK(bound == Approx(51e-6));                 // each kernel at least its own issue, and a launch
  f.machine.host_ahead = true;
  const double alone = f.seconds(product);
  CHECK(alone < 20e-6);
  f.machine.block_host = core::Seconds{30e-6};
  f.rank.actions = {product, product};
  const program::Block block{"", 0, 2};
  const auto wait = [&] {
    const ActionCost cost(f.program, f.rank, f.machine);
    return cost.block_wait(block, program::Call{});
  };
  CHECK(wait().action == 1);                     // the last operator lasts longer
  CHECK(core::to_seconds(wait().time).value() == Approx(130e-6 - 2 * alone).epsilon(1e-6));
  f.machine.host.gemm = core::Seconds{};
  f.machine.block_host = core::Seconds{alone};   // the device is slower than its host
  CHECK(wait().time.value() == 0);
}

TEST_CASE("a collective over activations is issued once, and waits for each rank that is late") {
  Fixture f;
  f.machine.host_ahead = true;
  f.machine.host.collective = core::Seconds{100e-6};
  program::Transfer rows = f.rank.transfers.front();
  rows.what = program::Traffic::tensor;
  rows.group = program::Group::tensor;
  f.rank.transfers.push_back(rows);
  f.program.mesh.data = 1;
  f.program.mesh.tensor = 4;
  const Action product = f.action(ActionKind::forward, 0, 0, 1);
  const Action sum = f.action(ActionKind::collective, 1, 0, 1);
  f.rank.actions = {product, sum};
  const auto wait = [&] {
    const ActionCost cost(f.program, f.rank, f.machine);
    return core::to_seconds(cost.block_wait({"", 0, 2}, program::Call{}).time).value();
  };
  const double device = f.seconds(product) + f.seconds(sum);
  CHECK(wait() == Approx(100e-6 - device).epsilon(1e-6));
  f.machine.rank_wait = core::Seconds{20e-6};
  f.machine.activation_waits = 3;
  const double late = f.seconds(product) + f.seconds(sum);
  CHECK(late == Approx(device + 4 * 20e-6).epsilon(1e-6));  // any collective ends so much later
  CHECK(wait() == Approx(100e-6 + 3 * 4 * 20e-6 - late).epsilon(1e-6));
}

TEST_CASE("over nodes a collective over activations waits for its hops") {
  // Of four ranks on two nodes: 1.5 more of the ring's two steps inside nodes and one between.
  Fixture f;
  f.machine.gpus_per_node = 2;
  f.machine.fabric = Fabric{};
  f.machine.fabric->gpus_per_node = 2;
  f.machine.fabric->ring = f.machine.fabric->network = core::BytesPerSecond{100e9};
  f.machine.fabric->hop = core::Seconds{2e-6};
  f.machine.fabric->network_hop = core::Seconds{30e-6};
  program::Transfer rows = f.rank.transfers.front();
  rows.what = program::Traffic::sequence;
  rows.group = program::Group::tensor;
  f.rank.transfers.push_back(rows);
  f.program.mesh.data = 1;
  f.program.mesh.tensor = 4;
  const Action sum = f.action(ActionKind::collective, 1, 0, 1);
  const double plain = f.seconds(sum);
  const core::Seconds steps =
      ring_steps({.size = 4, .nodes = 2, .per_node = 2}, *f.machine.fabric);
  // Simple inside a node takes twice NCCL's 5.7 - 1 us more than a low-latency step.
  CHECK(steps.value() == Approx(2 * (2e-6 + 2 * 4.7e-6) + 30e-6).epsilon(1e-6));
  f.machine.activation_waits = 2.5;
  CHECK(f.seconds(sum) == Approx(plain + 1.5 * steps.value()).epsilon(1e-6));
}
