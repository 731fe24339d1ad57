// Pipelines that never flush, beside the other degrees and what divides the optimizer: against the
// trainer that keeps old weights, bit by bit; tensor ranks, which sum in another order, within a
// bound of rounding; memory and traffic, to the byte.
#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/context_cases.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr std::int64_t kManySteps = 5;  // three stages fill, are steady for two steps, and drain

constexpr Schedule kWithoutFlush[] = {Schedule::pipedream_2bw, Schedule::pipedream};

// Six micro-batches of two samples a data rank, under pipedream one of four.
Strategy unflushed(Schedule schedule, std::int64_t pipeline, std::int64_t data,
                   const std::function<void(Strategy&)>& change = {}) {
  Strategy s = strategy(data, 12, 2, stages(pipeline, schedule));
  s.micro_batch = schedule == Schedule::pipedream ? 4 : 2;
  s.grad_accum = schedule == Schedule::pipedream ? 1 : 6;
  if (change) change(s);
  return s;
}

Job job_for(const models::ModelSpec& spec, const Strategy& s, const char* recipe,
            OptimizerKind optimizer = OptimizerKind::momentum) {
  Job job = tiny_job(spec, s.micro_batch * s.grad_accum * s.data, recipe);
  job.optimizer = optimizer;
  return job;
}

ProgramRun check_run(const models::ModelSpec& spec, const Job& job, const Strategy& s) {
  ProgramRun run = run_program(spec, job, s, kManySteps, kSeed);
  CHECK(core::to_text(program::check(run.program)) == "");
  CHECK(run.replicas_agree);
  check_prediction(run, kManySteps);
  return run;
}

void check_bits(const models::ModelSpec& spec, const Strategy& s, const char* recipe,
                OptimizerKind optimizer = OptimizerKind::momentum) {
  INFO(spec.name << " " << to_text(s) << " " << recipe);
  const Job job = job_for(spec, s, recipe, optimizer);
  const ProgramRun run = check_run(spec, job, s);
  CHECK(difference(run, reference(spec, job, run.program, s, kManySteps)) == "");
}

// What one rank a stage trains with the same delays.
ReferenceResult one_rank_a_stage(const models::ModelSpec& spec, const Job& job, Strategy s) {
  s.tensor = 1;
  s.sequence_parallel = false;
  s = resolve(spec, job, s);
  const auto graph = models::build_graph(spec, graph_options(job, s));
  REQUIRE(graph.ok());
  return reference(spec, job, lower(*graph, job, s, {}), s, kManySteps);
}

}  // namespace

TEST_CASE("a divided optimizer updates the versions of a pipeline without flush") {
  for (const Schedule schedule : kWithoutFlush)
    for (const auto& spec : {tiny_gpt(), tiny_llama()})
      for (const std::int64_t data : {2, 3})
        for (const char* recipe : {"fp32", "mixed"}) {
          const Strategy s = unflushed(schedule, 2, data, sharded(Sharding::zero1));
          check_bits(spec, s, recipe);
          check_bits(spec, s, recipe, OptimizerKind::adam);
        }
  check_bits(tiny_gpt(), unflushed(Schedule::pipedream, 3, 2, sharded(Sharding::zero1)), "fp32");
}

TEST_CASE("context ranks of a pipeline without flush train as its delayed weights say") {
  const models::ModelSpec spec = with_tokens(tiny_llama(), 8);
  for (const Schedule schedule : kWithoutFlush)
    for (const ContextMethod method :
         {ContextMethod::gather, ContextMethod::ring, ContextMethod::exchange}) {
      Strategy s = unflushed(schedule, 2, 1);
      s.context = 2;
      s.context_method = method;
      check_bits(spec, s, "fp32");
      s = unflushed(schedule, 2, 2, [&](Strategy& changed) {
        changed.context = 2;
        changed.context_method = method;
        sharded_all(Sharding::zero1)(changed);
      });
      check_bits(spec, s, "mixed");
    }
}

TEST_CASE("mixtures of experts train in pipelines without flush, divided or not") {
  for (const Schedule schedule : kWithoutFlush)
    for (const std::int64_t expert : {1, 2}) {
      Strategy s = unflushed(schedule, 2, 2);
      s.expert = expert;
      check_bits(tiny_mixture(), s, "fp32");
      sharded(Sharding::zero1)(s);
      check_bits(tiny_mixture(), s, "mixed");
    }
}

TEST_CASE("tensor ranks of a pipeline without flush equal one rank a stage with its delays") {
  for (const Schedule schedule : kWithoutFlush)
    for (const bool rows : {false, true})
      for (const Sharding z : {Sharding::none, Sharding::zero1}) {
        Strategy s = unflushed(schedule, 2, 2);
        s.tensor = 3;
        s.sequence_parallel = rows;
        if (z != Sharding::none) sharded(z)(s);
        INFO(to_text(s));
        const Job job = job_for(tiny_gpt(), s, "fp64");
        check_run(tiny_gpt(), job, s);
        check_close(tiny_gpt(), job, one_rank_a_stage(tiny_gpt(), job, s), s, kDoubleTolerance,
                    kDoubleTolerance, kManySteps);
      }
}

TEST_CASE("pipelines without flush recompute with the version that their forward pass read") {
  for (const Schedule schedule : kWithoutFlush)
    for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::selective,
                               Checkpoint::selective_op, Checkpoint::pointwise,
                               Checkpoint::memory_poor}) {
      Strategy s = unflushed(schedule, 2, 2, sharded(Sharding::zero1));
      recomputing(c)(s);
      check_bits(tiny_llama(), s, "fp32");
    }
}

TEST_CASE("adapters, chains and other families train in pipelines without flush") {
  for (const Schedule schedule : kWithoutFlush) {
    const Strategy s = unflushed(schedule, 2, 2, sharded(Sharding::zero1));
    Job adapters = job_for(tiny_llama(), s, "mixed");
    adapters.lora_rank = 3;
    const ProgramRun run = check_run(tiny_llama(), adapters, s);
    CHECK(difference(run, reference(tiny_llama(), adapters, run.program, s, kManySteps)) == "");
    check_bits(small_chain(4, 6), unflushed(schedule, 3, 2), "fp32");
    for (const auto family : {models::Family::bert, models::Family::mpt, models::Family::uce})
      check_bits(tiny_of(family), s, "fp32");
  }
}
