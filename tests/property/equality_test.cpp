// What many ranks train equals, bit by bit, what one rank trains that follows the accumulation
// order which the Program states: losses of every step and every final weight.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

void check_gpt(const Strategy& s, const std::string& recipe = "fp32", std::int64_t batch = 12) {
  check_equal(tiny_gpt(), tiny_job(tiny_gpt(), batch, recipe), s);
}

}  // namespace

TEST_CASE("one rank equals the reference in every recipe") {
  for (const char* recipe : {"fp32", "mixed", "lean", "megatron", "fsdp2", "pure_bf16", "fp64"})
    check_gpt(strategy(1, 12, 2), recipe);
}

TEST_CASE("the order of sums shows in the bits") {
  const models::ModelSpec spec = tiny_gpt();
  const Job job = tiny_job(spec, 12);
  const Strategy s = strategy(4, 12, 1, ring);
  const ProgramRun run = run_program(spec, job, s, kSteps, kSeed);
  CHECK(difference(run, reference(spec, job, run.program, s, kSteps)) == "");
  const auto other = [&](auto change) {
    program::Program stated = run.program;
    change(stated);
    return difference(run, reference(spec, job, stated, s, kSteps));
  };
  CHECK(other([](auto& p) { p.accumulation.algorithm = program::Algorithm::tree; }) != "");
  CHECK(other([](auto& p) { p.accumulation.ranks_first = true; }) != "");
  CHECK(other([](auto& p) { p.accumulation.group = p.accumulation.replicas = 2;
                            p.accumulation.ranks_first = true; }) != "");
}

TEST_CASE("all-reduce by ring, tree and naive exchange equals the reference on 2, 3 and 4 ranks") {
  for (std::int64_t k : {2, 3, 4})
    for (const auto& change : {ring, tree, naive_all_reduce}) check_gpt(strategy(k, 12, 1, change));
}

TEST_CASE("parameter servers, colocated and apart, equal the reference on 2, 3 and 4 ranks") {
  for (std::int64_t k : {2, 3, 4})
    for (std::int64_t m : {1, 2})
      for (bool colocated : {true, false}) check_gpt(strategy(k, 12, 1, servers(m, colocated)));
}

TEST_CASE("ZeRO stages 1, 2 and 3 equal the reference on 2, 3 and 4 ranks") {
  for (std::int64_t k : {2, 3, 4})
    for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      check_gpt(strategy(k, 12, 1, sharded(z)));
}

TEST_CASE("state in the memory of the host changes no bit") {
  for (const char* recipe : {"fp32", "mixed", "fsdp2"}) {
    for (const char* kind : {"optimizer", "params"}) {
      for (std::int64_t k : {1, 2, 3}) {
        Strategy s = strategy(k, 12, 2, sharded(Sharding::zero3));
        s.offload = {kind};
        check_gpt(s, recipe);
      }
    }
    Strategy s = strategy(2, 12, 2, sharded(Sharding::zero1));
    s.offload = {"optimizer"};
    check_gpt(s, recipe);
    s.sharding = Sharding::none;
    s.shard_group = 1;
    check_gpt(s, recipe);
  }
}

TEST_CASE("sharding within groups of two and three ranks equals the reference") {
  for (const char* recipe : {"fp32", "mixed", "fsdp2"}) {
    check_gpt(strategy(4, 12, 1, sharded(Sharding::zero3, 2)), recipe);
    check_gpt(strategy(6, 12, 1, sharded(Sharding::zero3, 2)), recipe);  // three replicas
    check_gpt(strategy(6, 12, 1, sharded(Sharding::zero3, 3)), recipe);  // shards with padding
  }
}

TEST_CASE("without overlap the sums are the same") {
  for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    Strategy s = strategy(3, 12, 2, sharded(z));
    if (z == Sharding::none) s.shard_group = 1;
    s.overlap = false;
    check_gpt(s);
  }
}

TEST_CASE("pipelines of 2, 3 and 4 stages equal the reference in every schedule") {
  for (std::int64_t p : {2, 3, 4})
    for (Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b})
      check_gpt(strategy(1, 12, 2, stages(p, schedule)));
}

TEST_CASE("chunks and split backward passes change no bit") {
  const auto cell = [](Schedule schedule, std::int64_t p, std::int64_t chunks) {
    Strategy s = strategy(1, 12, 2, stages(p, schedule));
    s.virtual_stages = chunks;
    check_gpt(s);
    if (schedule == Schedule::interleaved) return;
    check_gpt(s, "mixed");
    for (const Checkpoint again : {Checkpoint::selective_op, Checkpoint::pointwise}) {
      s.checkpoint = again;
      check_gpt(s);
    }
    s = strategy(2, 12, 1, stages(p, schedule));
    s.virtual_stages = chunks;
    sharded(Sharding::zero1)(s);
    check_gpt(s);
  };
  cell(Schedule::interleaved, 2, 2);
  for (std::int64_t p : {2, 3}) cell(Schedule::interleaved, p, 6 / p);  // the ends without layers
  for (std::int64_t p : {2, 3}) cell(Schedule::zb_h1, p, 1);
  cell(Schedule::zb_h2, 2, 1);
  for (std::int64_t p : {2, 3}) cell(Schedule::zb_v, p, 2);
  for (std::int64_t p : {2, 3}) cell(Schedule::dualpipe_v, p, 2);
  Strategy s = strategy(2, 12, 1, stages(2, Schedule::interleaved));
  s.virtual_stages = 2;
  for (std::int64_t chunks : {2, 3})
    for (Sharding z : {Sharding::zero2, Sharding::zero3}) {
      s.virtual_stages = chunks;
      sharded(z)(s);
      check_gpt(s);
    }
}

TEST_CASE("a pipeline of unequal stages equals the reference") {
  Strategy s = strategy(1, 12, 3, stages(2, Schedule::one_f_one_b));
  s.stages = {3, 1};
  check_gpt(s);
}

TEST_CASE("data parallel pipelines sum tied embeddings of both ends, sharded or not") {
  for (Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
      Strategy s = strategy(2, 12, 1, stages(2, schedule));
      if (z != Sharding::none) sharded(z)(s);
      check_gpt(s);
    }
}

TEST_CASE("recomputation changes no bit") {
  for (std::int64_t k : {1, 2, 3}) {
    for (std::int64_t every : {1, 2, 3})
      check_gpt(strategy(k, 12, 2, recomputing(Checkpoint::every_k, every)));
    check_gpt(strategy(k, 12, 2, recomputing(Checkpoint::memory_poor)));
    check_gpt(strategy(k, 12, 2, recomputing(Checkpoint::selective)));
    check_gpt(strategy(k, 12, 2, recomputing(Checkpoint::selective_op)));
    check_gpt(strategy(k, 12, 2, recomputing(Checkpoint::pointwise)));
  }
  for (Checkpoint checkpoint : {Checkpoint::every_k, Checkpoint::memory_poor,
                                Checkpoint::selective, Checkpoint::selective_op,
                                Checkpoint::pointwise})
    for (Sharding z : {Sharding::none, Sharding::zero3}) {
      Strategy s = strategy(2, 12, 1, stages(2, Schedule::one_f_one_b));
      recomputing(checkpoint)(s);
      if (z != Sharding::none) sharded(z)(s);
      check_gpt(s);
    }
}

TEST_CASE("recipes with 16-bit types equal the reference where types change on the way") {
  for (const char* recipe : {"mixed", "lean", "megatron", "fsdp2", "pure_bf16"}) {
    check_gpt(strategy(3, 12, 1, ring), recipe);
    check_gpt(strategy(2, 12, 1, servers(2, false)), recipe);
    for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      check_gpt(strategy(3, 12, 2, sharded(z)), recipe);
    check_gpt(strategy(2, 12, 1, stages(2, Schedule::one_f_one_b)), recipe);
  }
}

TEST_CASE("half precision equals the reference, too") {
  Job job = tiny_job(tiny_gpt(), 12, "mixed");
  job.precision = core::DType::f16;
  // None, a fixed one, one under which every step overflows, and a dynamic one.
  for (const double scale : {1.0, 1'000.0, kMostLossScale, 0.0}) {
    job.loss_scale = scale;
    check_equal(tiny_gpt(), job, strategy(3, 12, 1, ring));
    check_equal(tiny_gpt(), job, strategy(2, 12, 1, sharded(Sharding::zero2)));
    check_equal(tiny_gpt(), job, strategy(1, 12, 2, stages(2, Schedule::one_f_one_b)));
  }
}

TEST_CASE("gradients that travel in another type are rounded where the Program says") {
  for (const bool overlap : {true, false})
    for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
      Strategy s = strategy(3, 12, 2);
      if (z != Sharding::none) sharded(z)(s);
      s.overlap = overlap;
      Job job = tiny_job(tiny_gpt(), 12, "mixed");
      job.reduce_dtype = core::DType::f32;
      check_equal(tiny_gpt(), job, s);
      job.recipe = "fp32";
      job.reduce_dtype = core::DType::bf16;
      check_equal(tiny_gpt(), job, s);
    }
}

TEST_CASE("adapters train alone, and equal the reference") {
  Job job = tiny_job(tiny_gpt(), 12);
  job.lora_rank = 3;
  check_equal(tiny_gpt(), job, strategy(1, 12, 2));
  for (std::int64_t k : {2, 3, 4}) {
    check_equal(tiny_gpt(), job, strategy(k, 12, 1, ring));
    check_equal(tiny_gpt(), job, strategy(k, 12, 1, servers(2, true)));
    check_equal(tiny_gpt(), job, strategy(k, 12, 1, sharded(Sharding::zero1)));
    check_equal(tiny_gpt(), job, strategy(k, 12, 1, sharded(Sharding::zero2)));
    check_equal(tiny_gpt(), job, strategy(1, 12, 1, stages(k, Schedule::one_f_one_b)));
  }
  for (Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor, Checkpoint::selective}) {
    Strategy s = strategy(2, 12, 1, stages(2, Schedule::gpipe));
    recomputing(c)(s);
    check_equal(tiny_gpt(), job, s);
  }
  job.recipe = "fsdp2";
  check_equal(tiny_gpt(), job, strategy(2, 12, 1, sharded(Sharding::zero2)));
}

TEST_CASE("adapters of every matrix of a layer train alone, and equal the reference") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()}) {
    Job job = tiny_job(spec, 12);
    job.lora_rank = 3;
    const auto targets = models::lora_targets_of(spec);
    job.lora_targets.assign(targets.begin(), targets.end());
    check_equal(spec, job, strategy(1, 12, 2));
    check_equal(spec, job, strategy(3, 12, 1, ring));
    check_equal(spec, job, strategy(2, 12, 1, sharded(Sharding::zero2)));
    check_equal(spec, job, strategy(2, 12, 1, sharded(Sharding::zero3)));
    check_equal(spec, job, strategy(1, 12, 1, stages(2, Schedule::one_f_one_b)));
    for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::pointwise})
      check_equal(spec, job, strategy(2, 12, 1, recomputing(c)));
  }
}

TEST_CASE("batches that nothing divides evenly equal the reference") {
  check_gpt(strategy(3, 15, 5, ring), "fp32", 15);
  check_gpt(strategy(3, 21, 7, sharded(Sharding::zero2)), "fp32", 21);
  check_gpt(strategy(1, 7, 1, stages(3, Schedule::one_f_one_b)), "fp32", 7);
  check_gpt(strategy(1, 2, 1, stages(4, Schedule::one_f_one_b)), "fp32", 2);
  check_gpt(strategy(4, 4, 1, sharded(Sharding::zero3)), "fp32", 4);
}

TEST_CASE("adapters beside frozen shards equal the reference, whatever the shards' padding") {
  for (const char* recipe : {"fp32", "mixed", "fsdp2"}) {
    Job job = tiny_job(tiny_gpt(), 12, recipe);
    job.lora_rank = 3;
    for (std::int64_t k : {1, 2, 3, 4})
      check_equal(tiny_gpt(), job, strategy(k, 12, 1, sharded(Sharding::zero3)));
    check_equal(tiny_gpt(), job, strategy(4, 12, 1, sharded(Sharding::zero3, 2)));
    Strategy s = strategy(2, 12, 1, stages(2, Schedule::one_f_one_b));
    sharded(Sharding::zero3)(s);
    check_equal(tiny_gpt(), job, s);
    s = strategy(2, 12, 1, sharded(Sharding::zero3));
    s.offload = {"params"};
    check_equal(tiny_gpt(), job, s);
  }
}

TEST_CASE("attention that stores its probabilities equals the reference that does") {
  for (const char* attention : {"fused_softmax", "unfused"})
    for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()})
      for (const char* recipe : {"fp32", "mixed"}) {
        Job job = tiny_job(spec, 12, recipe);
        job.attention = attention;
        INFO(attention);
        check_equal(spec, job, strategy(1, 12, 2));
        check_equal(spec, job, strategy(3, 12, 2, sharded(Sharding::zero3)));
        check_equal(spec, job, strategy(1, 12, 2, stages(2, Schedule::zb_h1)));
        for (Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::selective_op,
                             Checkpoint::pointwise, Checkpoint::memory_poor})
          check_equal(spec, job, strategy(2, 12, 2, recomputing(c)));
      }
}

TEST_CASE("chains equal the reference with each loss and activation") {
  for (auto activation : {models::Activation::tanh, models::Activation::relu,
                          models::Activation::gelu_tanh})
    for (auto loss : {models::Loss::squared_error, models::Loss::cross_entropy}) {
      models::ModelSpec spec = small_chain(4, 8);
      spec.widths = {7, 11, 5, 5, 6};
      spec.activation = activation;
      spec.loss = loss;
      const Job job = tiny_job(spec, 12);
      check_equal(spec, job, strategy(1, 12, 3));
      check_equal(spec, job, strategy(3, 12, 2, ring));
      check_equal(spec, job, strategy(2, 12, 2, sharded(Sharding::zero1)));
      check_equal(spec, job, strategy(2, 12, 2, sharded(Sharding::zero3)));
      check_equal(spec, job, strategy(6, 12, 2, sharded(Sharding::zero3, 3)));
      check_equal(spec, job, strategy(1, 12, 2, stages(2, Schedule::one_f_one_b)));
      check_equal(spec, job, strategy(1, 12, 2, stages(4, Schedule::gpipe)));
      for (Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor})
        check_equal(spec, job, strategy(1, 12, 2, recomputing(c)));
    }
}

TEST_CASE("every optimizer equals the reference, whole, sharded and on servers") {
  for (const Optimizer& o : optimizers()) {
    Job job = tiny_job(tiny_gpt(2), 6);
    job.optimizer = o.kind;
    INFO(o.name);
    check_equal(tiny_gpt(2), job, strategy(1, 6, 3), 3);
    check_equal(tiny_gpt(2), job, strategy(2, 6, 3, ring), 3);
    check_equal(tiny_gpt(2), job, strategy(2, 6, 3, sharded(Sharding::zero1)), 3);
    check_equal(tiny_gpt(2), job, strategy(2, 6, 3, sharded(Sharding::zero3)), 3);
    check_equal(tiny_gpt(2), job, strategy(2, 6, 3, servers(2, true)), 3);
  }
}

TEST_CASE("the loss falls while a small model learns the synthetic data") {
  Job job = tiny_job(tiny_gpt(2), 12);
  job.optimizer = OptimizerKind::adam;
  const ProgramRun run =
      run_program(tiny_gpt(2), job, strategy(2, 12, 6, sharded(Sharding::zero2)), 20, kSeed);
  const auto mean = [&](std::size_t first) {
    return (run.losses[first] + run.losses[first + 1] + run.losses[first + 2]) / 3;
  };
  INFO("first " << run.losses.front() << " last " << run.losses.back());
  CHECK(run.losses.front() == Approx(std::log(61.0)).epsilon(0.02));  // knows nothing: ln vocab
  CHECK(mean(17) < 0.98 * mean(0));
}
