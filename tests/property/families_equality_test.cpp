// Families beyond GPT-2: what many ranks train equals the reference, bit by bit.
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

void check_llama(const Strategy& s, const std::string& recipe = "fp32", std::int64_t lora = 0) {
  Job job = tiny_job(tiny_llama(), 12, recipe);
  job.lora_rank = lora;
  check_equal(tiny_llama(), job, s);
}

Strategy pipeline(std::int64_t data, std::int64_t stages_count, Schedule schedule,
                  std::int64_t chunks = 1) {
  Strategy s = strategy(data, 12, 1, stages(stages_count, schedule));
  s.virtual_stages = chunks;
  return s;
}

}  // namespace

TEST_CASE("one rank trains Llama, Qwen2 and Qwen3 as the reference does, in every recipe") {
  for (const auto family : {models::Family::llama, models::Family::qwen2, models::Family::qwen3})
    for (const char* recipe : {"fp32", "mixed", "lean", "megatron", "fsdp2", "pure_bf16", "fp64"})
      check_equal(tiny_llama(family), tiny_job(tiny_llama(family), 12, recipe),
                  strategy(1, 12, 2));
}

TEST_CASE("GPT-NeoX, whose branches are parallel and heads half rotated, equals the reference") {
  models::ModelSpec spec = tiny_llama(models::Family::gpt_neox);
  spec.kv_heads = spec.heads = 4;
  spec.head_dim = 0;
  spec.variants.rotary_fraction = 0.34;  // 2 of 6 dimensions
  const Job job = tiny_job(spec, 12, "mixed");
  check_equal(spec, job, strategy(1, 12, 2));
  check_equal(spec, job, strategy(3, 12, 1, sharded(Sharding::zero3)));
  check_equal(spec, job, pipeline(2, 2, Schedule::one_f_one_b));
  check_equal(spec, job, pipeline(1, 2, Schedule::zb_h1));
  check_equal(spec, job, strategy(2, 12, 1, recomputing(Checkpoint::every_k)));
  check_equal(spec, job, strategy(2, 12, 1, recomputing(Checkpoint::selective_op)));
  check_equal(spec, job, strategy(2, 12, 1, recomputing(Checkpoint::pointwise)));
}

TEST_CASE("Llama with tied embeddings and as many keys as queries equals the reference") {
  models::ModelSpec spec = tiny_llama();
  spec.kv_heads = spec.heads;
  spec.tied_embeddings = true;
  check_equal(spec, tiny_job(spec, 12), strategy(1, 12, 2));
  check_equal(spec, tiny_job(spec, 12), pipeline(2, 2, Schedule::one_f_one_b));
}

TEST_CASE("Llama on data ranks, sharded or not, equals the reference") {
  for (const std::int64_t k : {2, 3, 4}) {
    for (const auto& change : {ring, tree, naive_all_reduce})
      check_llama(strategy(k, 12, 1, change));
    check_llama(strategy(k, 12, 1, servers(2, true)));
    for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
      check_llama(strategy(k, 12, 1, sharded(z)));
      check_llama(strategy(k, 12, 1, sharded(z)), "mixed");
    }
  }
  check_llama(strategy(4, 12, 1, sharded(Sharding::zero3, 2)), "fsdp2");
}

TEST_CASE("Llama on pipelines equals the reference in every schedule") {
  for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b})
    for (const std::int64_t p : {2, 4}) check_llama(pipeline(1, p, schedule));
  check_llama(pipeline(1, 2, Schedule::interleaved, 2));
  check_llama(pipeline(1, 2, Schedule::zb_h1));
  check_llama(pipeline(1, 2, Schedule::zb_h2), "mixed");
  for (const Sharding z : {Sharding::zero1, Sharding::zero3}) {
    Strategy s = pipeline(2, 2, Schedule::one_f_one_b);
    sharded(z)(s);
    check_llama(s);
  }
}

TEST_CASE("recomputing Llama's layers changes no bit") {
  for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor, Checkpoint::selective,
                             Checkpoint::selective_op, Checkpoint::pointwise}) {
    check_llama(strategy(2, 12, 2, recomputing(c)));
    check_llama(strategy(2, 12, 2, recomputing(c)), "mixed");
    Strategy s = pipeline(2, 2, Schedule::one_f_one_b);
    recomputing(c)(s);
    check_llama(s);
  }
}

TEST_CASE("adapters of Llama, where keys are narrower than queries, equal the reference") {
  check_llama(strategy(1, 12, 2), "fp32", 3);
  check_llama(strategy(3, 12, 1, ring), "mixed", 3);
  check_llama(strategy(2, 12, 1, sharded(Sharding::zero2)), "fp32", 3);
  for (const std::int64_t k : {2, 3, 4}) {
    check_llama(strategy(k, 12, 1, sharded(Sharding::zero3)), "fp32", 3);
    check_llama(strategy(k, 12, 1, sharded(Sharding::zero3)), "mixed", 3);
  }
  check_llama(pipeline(1, 2, Schedule::one_f_one_b), "fp32", 3);
}

TEST_CASE("adapters on frozen matrices that are kept as codes equal the reference") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()})
    for (const char* quantization : {"int8", "nf4", "two_factor"}) {
      Job job = tiny_job(spec, 12, "mixed");
      job.lora_rank = 3;
      job.quantization = quantization;
      INFO(spec.name << " " << quantization);
      check_equal(spec, job, strategy(1, 12, 2));
      check_equal(spec, job, strategy(3, 12, 1, ring));
      check_equal(spec, job, strategy(2, 12, 1, sharded(Sharding::zero2)));
      check_equal(spec, job, strategy(2, 12, 1, sharded(Sharding::zero3)));
      check_equal(spec, job, strategy(3, 12, 1, sharded(Sharding::zero3)));
      check_equal(spec, job, pipeline(1, 2, Schedule::one_f_one_b));
      check_equal(spec, job, pipeline(1, 2, Schedule::zb_h1));
      check_equal(spec, job, strategy(2, 12, 1, recomputing(Checkpoint::every_k)));
    }
}

TEST_CASE("the families' own pieces are in the reference: Qwen3 differs from Llama") {
  const auto losses = [](models::Family family) {
    const models::ModelSpec spec = tiny_llama(family);
    return run_program(spec, tiny_job(spec, 12), strategy(1, 12, 2), kSteps, kSeed).losses;
  };
  CHECK(losses(models::Family::llama) != losses(models::Family::qwen3));
}
