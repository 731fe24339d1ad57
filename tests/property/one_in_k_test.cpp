// every_k as torch's wrappers do it, executed: one layer in k is computed again, alone. The bits of
// the reference, memory and traffic to the byte.
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

hw_profiles::Framework one_in_k() {
  hw_profiles::Framework f;
  f.recomputes_one_in_k = true;
  return f;
}

ProgramRun check_one_in_k(const models::ModelSpec& spec, Strategy s, std::int64_t k,
                          const std::string& recipe = "fp32") {
  recomputing(Checkpoint::every_k, k)(s);
  INFO(spec.name << " " << spec.layers << " layers " << to_text(s) << " " << recipe);
  const Job job = tiny_job(spec, 12, recipe);
  ProgramRun run = run_program(spec, job, s, kSteps, kSeed, {}, one_in_k());
  CHECK(run.replicas_agree);
  CHECK(difference(run, reference(spec, job, run.program, s, kSteps)) == "");
  CHECK(program::check(run.program).empty());
  check_prediction(run);
  return run;
}

}  // namespace

TEST_CASE("one layer in k computed again changes no bit and holds what is predicted") {
  for (const models::ModelSpec& spec : {tiny_gpt(5), tiny_llama()})
    for (std::int64_t k : {1, 2, 3, 4}) {
      const ProgramRun run = check_one_in_k(spec, strategy(1, 12, 2), k);
      // Six micro-batches, each layer once and those that k divides once more.
      CHECK(run.ranks[0].evaluations == 6 * (spec.layers + spec.layers / k));
      for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
        check_one_in_k(spec, strategy(2, 12, 2, sharded(z)), k, "mixed");
    }
  Strategy s = strategy(2, 12, 2, sharded(Sharding::zero3));
  s.overlap = false;
  check_one_in_k(tiny_gpt(5), s, 2, "fsdp2");
}

TEST_CASE("a rank counts one layer in k through all its chunks, odd ones too") {
  for (std::int64_t p : {2, 3})
    for (Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
      for (std::int64_t k : {2, 3})
        check_one_in_k(tiny_gpt(7), strategy(1, 12, 2, stages(p, schedule)), k);
  for (std::int64_t layers : {6, 7})
    for (std::int64_t k : {1, 2, 3}) {
      Strategy s = strategy(1, 12, 2, stages(2, Schedule::interleaved));
      s.virtual_stages = 2;
      const ProgramRun run = check_one_in_k(tiny_gpt(layers), s, k);
      for (const RankResult& rank : run.ranks) {
        const std::int64_t held = run.program.classes[rank.class_index].layers;
        CHECK(rank.evaluations == 6 * (held + held / k));
      }
    }
  Strategy s = strategy(2, 12, 1, stages(2, Schedule::one_f_one_b));
  sharded(Sharding::zero3)(s);
  check_one_in_k(tiny_llama(), s, 2, "mixed");
}

TEST_CASE("the first k layers of each chunk may be computed again, as predicted and bit by bit") {
  const auto check = [](const models::ModelSpec& spec, Strategy s, std::int64_t k) {
    s.checkpoint = Checkpoint::first_k;
    s.checkpoint_every = k;
    INFO(spec.name << " " << to_text(s));
    const Job job = tiny_job(spec, 12, "mixed");
    const ProgramRun run = run_program(spec, job, s, kSteps, kSeed);
    CHECK(difference(run, reference(spec, job, run.program, s, kSteps)) == "");
    CHECK(program::check(run.program).empty());
    check_prediction(run);
    const std::int64_t chunk = spec.layers / (s.pipeline * s.virtual_stages);
    for (const RankResult& rank : run.ranks) {
      const std::int64_t held = run.program.classes[rank.class_index].layers;
      const std::int64_t micro_batches = 12 / (s.data * s.micro_batch);
      if (spec.layers % (s.pipeline * s.virtual_stages) == 0)
        CHECK(rank.evaluations ==
              micro_batches * (held + std::min(k, chunk) * s.virtual_stages));
    }
  };
  for (const std::int64_t k : {1, 2, 4}) {
    for (const Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero3})
      check(tiny_gpt(4), strategy(2, 12, 2, sharded(z)), k);
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
      check(tiny_gpt(7), strategy(1, 12, 2, stages(2, schedule)), k);
    Strategy s = strategy(1, 12, 2, stages(2, Schedule::interleaved));
    s.virtual_stages = 2;
    check(tiny_gpt(8), s, k);
    s = strategy(2, 12, 2, sharded(Sharding::zero3));
    s.offload = {"activations"};
    check(tiny_llama(), s, k);
  }
}

TEST_CASE("where one layer in k is computed again the others' tensors may wait on the host") {
  for (std::int64_t k : {1, 2, 3}) {
    Strategy s = strategy(2, 12, 2, sharded(Sharding::zero3));
    s.offload = {"activations"};
    check_one_in_k(tiny_gpt(5), s, k, "mixed");
    s = strategy(1, 12, 2, stages(2, Schedule::interleaved));
    s.virtual_stages = 2;
    s.offload = {"activations"};
    check_one_in_k(tiny_gpt(7), s, k);
  }
}

// Layers whose backward pass reads their output, experts that exchange rows.
TEST_CASE("one layer in k computed again changes no bit of other families") {
  for (const models::ModelSpec& spec : {tiny_of(models::Family::bert), tiny_of(models::Family::mpt),
                                        tiny_of(models::Family::uce), tiny_mixture()})
    for (std::int64_t p : {1, 2})
      for (std::int64_t k : {2, 3}) {
        Strategy s = strategy(1, 12, 2);
        if (p > 1) stages(p, Schedule::one_f_one_b)(s);
        const Job job = tiny_job(spec, 12);
        const ProgramRun all = run_program(spec, job, s, kSteps, kSeed);
        recomputing(Checkpoint::every_k, k)(s);
        INFO(spec.name << " " << to_text(s));
        const ProgramRun run = run_program(spec, job, s, kSteps, kSeed, {}, one_in_k());
        CHECK(run.losses == all.losses);
        CHECK(run.weights == all.weights);
        CHECK(program::check(run.program).empty());
        check_prediction(run);
      }
}
