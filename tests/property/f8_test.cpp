// Products in 8 bits: what is trained equals a reference that rounds every element by itself, bit
// by bit, in every scaling that is executed; memory and traffic equal the prediction to the byte.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/f8_jobs.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

models::ModelSpec gpt() { return even(tiny_gpt()); }
models::ModelSpec llama() { return even_llama(); }
models::ModelSpec mixture() { return even(tiny_mixture()); }

constexpr std::array<const char*, 4> kExecuted{"tensorwise", "rowwise", "blockwise", "mxfp8"};

void equal(const models::ModelSpec& spec, const Strategy& s, const char* scaling = "tensorwise",
           const char* recipe = "mixed") {
  INFO(spec.name << " " << scaling);
  check_equal(spec, f8_job(spec, scaling, recipe), s, kSteps, executor());
}

void predicted(const models::ModelSpec& spec, const Strategy& s,
               const char* scaling = "tensorwise") {
  INFO(spec.name << " " << scaling << ": " << to_text(s));
  const ProgramRun run = run_program(spec, f8_job(spec, scaling), s, 2, kSeed, {}, executor());
  CHECK(run.replicas_agree);
  check_prediction(run);
}

}  // namespace

TEST_CASE("one rank trains in 8 bits as the reference does, in every scaling and recipe") {
  for (const models::ModelSpec& spec : {gpt(), llama(), mixture()})
    for (const char* scaling : kExecuted) equal(spec, strategy(1, 12, 2), scaling);
  for (const char* recipe : {"lean", "megatron", "fsdp2", "pure_bf16"})
    equal(gpt(), strategy(1, 12, 2), "tensorwise", recipe);
}

TEST_CASE("data ranks, pipelines and recomputation train the bits of 8-bit products alone") {
  for (const char* scaling : {"tensorwise", "mxfp8"}) {
    equal(gpt(), strategy(3, 12, 2, ring), scaling);
    for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      equal(llama(), strategy(2, 12, 1, sharded(z)), scaling);
    equal(llama(), strategy(2, 12, 1, stages(2, Schedule::one_f_one_b)), scaling);
    equal(llama(), strategy(1, 12, 1, stages(2, Schedule::zb_h1)), scaling);
    for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::selective_op,
                               Checkpoint::pointwise}) {
      equal(gpt(), strategy(2, 12, 2, recomputing(c)), scaling);
      equal(llama(), strategy(2, 12, 2, recomputing(c)), scaling);
    }
  }
  equal(mixture(), strategy(2, 12, 1, sharded(Sharding::zero2)), "blockwise");
}

TEST_CASE("memory and traffic of steps in 8 bits equal the prediction") {
  for (const char* scaling : kExecuted) {
    Strategy s = mesh(2, 2, 2, Sharding::zero1);
    predicted(gpt(), s, scaling);
    s.sequence_parallel = true;
    s.schedule = Schedule::zb_h1;
    predicted(llama(), s, scaling);
    Strategy experts = strategy(4, 12, 1, sharded(Sharding::zero1));
    experts.expert = 2;
    predicted(mixture(), experts, scaling);
    predicted(llama(), strategy(2, 12, 3, recomputing(Checkpoint::every_k)), scaling);
    Strategy context = strategy(1, 12, 2);
    context.context = 2;
    predicted(llama(), context, scaling);
  }
}

TEST_CASE("losses of ten steps in 8 bits are within 1 % of those in 16 bits") {
  const models::ModelSpec spec = llama();
  Job wide = f8_job(spec);
  wide.precision = core::DType::bf16;
  const Strategy s = strategy(1, 12, 4);
  const std::vector<double> exact = run_program(spec, wide, s, 10, kSeed, {}, executor()).losses;
  for (const char* scaling : kExecuted) {
    INFO(scaling);
    const ProgramRun run = run_program(spec, f8_job(spec, scaling), s, 10, kSeed, {}, executor());
    CHECK(run.losses != exact);
    for (std::size_t i = 0; i < exact.size(); ++i)
      CHECK(std::abs(run.losses[i] / exact[i] - 1) < 0.01);
  }
}
