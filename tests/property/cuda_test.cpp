// The CUDA backend, whole: every strategy that the host executes, with the kernels of the GPU on
// its twin (exec/cuda/twin), trains what one rank trains on the host; memory and traffic are the
// prediction to the byte. The twin runs streams in an order of chance, so a wait that is missing
// shows here.
#include "tests/property/cuda_runs.hpp"

using namespace planner;
using namespace tests;
namespace cuda = exec::cuda;

TEST_CASE("one rank with the kernels of the GPU trains what the host trains") {
  check_gpt(strategy(1, 12, 2));
  check_gpt(strategy(1, 12, 2), "fp64", kDouble);
}

TEST_CASE("recipes with 16-bit types train within the bound of their rounding") {
  for (const std::string recipe : {"mixed", "lean", "megatron", "fsdp2", "pure_bf16"}) {
    const bool wide = recipe == "lean" || recipe == "fsdp2";
    check_gpt(strategy(1, 12, 2), recipe, wide ? kHalf : kHalfStored);
    check_gpt(strategy(2, 12, 1, sharded(Sharding::zero2)), recipe, wide ? kHalf : kHalfStored);
  }
}

TEST_CASE("attention on tensor cores trains within the bound of its rounding") {
  models::ModelSpec spec = tiny_gpt();
  spec.heads = spec.kv_heads = 3;
  for (const char* recipe : {"mixed", "lean"})
    for (const Strategy& s : {strategy(1, 12, 2), mesh(1, 3, 1)}) {
      const Bounds& bounds = std::string(recipe) == "lean" ? kHalf : kHalfStored;
      check(spec, tiny_job(spec, 12, recipe), s, bounds);
      CHECK(launches["tensor_attention"] > 0);
      CHECK(launches["tensor_attention_key_gradient"] > 0);
      CHECK(launches["attention"] == 0);
    }
}

TEST_CASE(
    "a library's attention trains within the bound of its rounding, in the predicted memory") {
  models::ModelSpec spec = tiny_gpt();
  spec.heads = spec.kv_heads = 3;
  for (const Strategy& s : {strategy(1, 12, 2), mesh(1, 3, 1)}) {
    check(spec, tiny_job(spec, 12, "lean"), s, kHalf, cuda::AttentionKernel::automatic);
    CHECK(launches["library_attention"] > 0);
    CHECK(launches["tensor_attention"] == 0);
  }
  // Which has none of f32.
  check(spec, tiny_job(spec, 12), strategy(1, 12, 2), kFloat, cuda::AttentionKernel::automatic);
  CHECK(launches["library_attention"] == 0);
  CHECK(launches["attention"] > 0);
}

TEST_CASE(
    "products that compute the GELU which reads them train within the bound, in the same memory") {
  const models::ModelSpec spec = tiny_gpt(2);
  const auto with = [&](const Strategy& s, const std::string& recipe, const Bounds& bounds) {
    check(spec, tiny_job(spec, 12, recipe), s, bounds, cuda::AttentionKernel::own, true);
  };
  for (const Checkpoint c : {Checkpoint::none, Checkpoint::every_k, Checkpoint::pointwise}) {
    with(strategy(1, 12, 2, recomputing(c)), "lean", kHalf);
    // Two layers, six micro-batches.
    CHECK(launches["product_gelu"] >= kSteps * 2 * 6);
    CHECK(launches["product_gelu_gradient"] == kSteps * 2 * 6);
    CHECK(launches["gelu_gradient"] == 0);
  }
  with(mesh(1, 2, 1), "lean", kHalf);
  CHECK(launches["product_gelu_gradient"] > 0);
  with(strategy(2, 12, 1, sharded(Sharding::zero3)), "mixed", kHalfStored);
  with(strategy(1, 12, 2), "fp32", kFloat);
  CHECK(launches["product_gelu"] == 0);
  CHECK(launches["gelu"] > 0);
}

TEST_CASE("data ranks by ring, tree, naive exchange and servers train what one rank trains") {
  for (const std::int64_t k : {2, 3})
    for (const auto& change : {ring, tree, naive_all_reduce}) check_gpt(strategy(k, 12, 2, change));
  for (const bool colocated : {true, false}) {
    check_gpt(strategy(3, 12, 1, servers(1, colocated)));
    check_gpt(strategy(2, 12, 1, servers(2, colocated)));
    // Of one worker: never stale.
    check_gpt(strategy(1, 12, 2, [&](Strategy& s) {
      servers(1, colocated)(s);
      s.server_mode = ServerMode::async;
    }));
  }
}

TEST_CASE("sharded data ranks train what one rank trains, overlapped or not") {
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    for (const std::int64_t k : {2, 3}) check_gpt(strategy(k, 12, 1, sharded(z)));
    Strategy s = strategy(3, 12, 2, sharded(z));
    s.overlap = false;
    check_gpt(s);
  }
  check_gpt(strategy(4, 12, 1, sharded(Sharding::zero3, 2)));
}

TEST_CASE("pipelines in every schedule train what one rank trains") {
  for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b})
    check_gpt(strategy(1, 12, 2, stages(3, schedule)));
  for (const Schedule schedule : {Schedule::interleaved, Schedule::zb_h1, Schedule::zb_h2}) {
    Strategy s = strategy(2, 12, 1, stages(2, schedule));
    s.virtual_stages = schedule == Schedule::interleaved ? 2 : 1;
    check_gpt(s);
  }
}

TEST_CASE("state that lies in the host's memory trains what one rank trains") {
  for (const char* kind : {"optimizer", "params"}) {
    Strategy s = strategy(3, 12, 2, sharded(Sharding::zero3));
    s.offload = {kind};
    check_gpt(s);
  }
  for (const Sharding z : {Sharding::none, Sharding::zero1}) {
    Strategy s = strategy(2, 12, 2, sharded(z));
    s.offload = {"optimizer"};
    check_gpt(s);
    check_gpt(s, "mixed", kHalfStored);
  }
}

TEST_CASE("activations in the host's memory and a head in chunks train what one rank trains") {
  for (const Sharding z : {Sharding::none, Sharding::zero3})
    for (const char* recipe : {"fp32", "mixed"}) {
      Strategy s = strategy(2, 12, 2);
      if (z != Sharding::none) sharded(z)(s);
      s.offload = {"activations"};
      s.loss_chunks = 3;
      if (std::string(recipe) == "fp32") check_gpt(s);
      else check_gpt(s, recipe, kHalfStored);
    }
}

TEST_CASE("recomputation trains what one rank trains") {
  for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor, Checkpoint::selective,
                             Checkpoint::pointwise}) {
    check_gpt(strategy(2, 12, 2, recomputing(c)));
    Strategy s = strategy(2, 12, 1, stages(2, Schedule::one_f_one_b));
    recomputing(c)(s);
    sharded(Sharding::zero3)(s);
    check_gpt(s);
  }
}

TEST_CASE("half of a product that is kept trains what the host trains") {
  const Strategy s = strategy(1, 12, 2, recomputing(Checkpoint::selective_op));
  for (const models::ModelSpec& spec : {tiny_gpt(2), tiny_llama()}) {
    check(spec, tiny_job(spec, 12, "fp64"), s, kDouble);
    check(spec, tiny_job(spec, 12, "fp32"), s, kFloat);
    // Its product is not joined with the GELU that reads it.
    check(spec, tiny_job(spec, 12, "mixed"), s, kHalfStored, cuda::AttentionKernel::own, true);
  }
}

TEST_CASE("tensor ranks, with the sequence divided or not, train what the host's train") {
  check_gpt(mesh(1, 2, 1));
  check_gpt(mesh(1, 3, 2));
  check_gpt(mesh(2, 2, 2, Sharding::zero1));
  for (const Checkpoint c : {Checkpoint::none, Checkpoint::every_k}) {
    Strategy s = mesh(2, 3, 1, Sharding::zero3);
    s.sequence_parallel = true;
    recomputing(c)(s);
    check_gpt(s);
  }
}

TEST_CASE("adapters and matrices stored as codes train what one rank trains") {
  Job job = tiny_job(tiny_gpt(), 12);
  job.lora_rank = 3;
  check(tiny_gpt(), job, strategy(2, 12, 1, ring), kFloat);
  check(tiny_gpt(), job, mesh(1, 2, 1), kFloat);
  for (const char* codes : {"int8", "nf4"}) {
    job.quantization = codes;
    check(tiny_gpt(), job, strategy(2, 12, 1, sharded(Sharding::zero1)), kFloat);
    check(tiny_gpt(), job, strategy(2, 12, 1, sharded(Sharding::zero3)), kFloat);
  }
}

TEST_CASE("every optimizer trains on its shard what the host's trains") {
  for (const Optimizer& o : optimizers()) {
    Job job = tiny_job(tiny_gpt(2), 12, "fp32");
    job.optimizer = o.kind;
    INFO(o.name);
    const Strategy s = strategy(2, 12, 3, sharded(Sharding::zero1));
    const ProgramRun found = on_twin(tiny_gpt(2), job, s, 3);
    const ProgramRun expected = run_program(tiny_gpt(2), job, s, 3, kCudaSeed);
    check_prediction(found);
    for (std::size_t i = 0; i < expected.losses.size(); ++i)
      CHECK(found.losses[i] == Approx(expected.losses[i]).epsilon(1e-4));
  }
}

TEST_CASE("gradients that are scaled down to a norm of all of them train what one rank trains") {
  const auto check_clipped = [](const Strategy& s, const char* recipe = "fp64",
                                const Bounds& bounds = kDouble) {
    Job job = tiny_job(tiny_gpt(), 12, recipe);
    job.clip = 0.05;                   // less than any norm here
    check(tiny_gpt(), job, s, bounds);
  };
  for (const char* recipe : {"fp32", "megatron"})
    check_clipped(strategy(1, 12, 3), recipe, recipe[0] == 'f' ? kFloat : kHalf);
  check_clipped(strategy(3, 12, 2));
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    check_clipped(mesh(2, 3, 2, z));
  check_clipped(strategy(4, 12, 1, sharded(Sharding::zero3, 2)));
  check_clipped(strategy(1, 12, 2, stages(2, Schedule::zb_h2)));
  Strategy s = strategy(2, 12, 2, sharded(Sharding::zero1));
  s.offload = {"optimizer"};
  check_clipped(s);
}

TEST_CASE("a device that fails ends every rank with its words, and nothing stays behind") {
  using cuda::FailureKind;
  const auto kinds = {FailureKind::out_of_memory, FailureKind::launch, FailureKind::device};
  for (const FailureKind kind : kinds)
    for (const char* call : {"launch", "copy", "allocate", "wait", "multiply", "synchronise"})
      for (const int nth : {1, 37}) {
        cuda::Twin twin;
        {
          cuda::CudaPlatform platform(twin);
          twin.fail(call, nth, kind);
          INFO(call << " " << nth);
          try {
            run_program(tiny_gpt(2), tiny_job(tiny_gpt(2), 12),
                        strategy(3, 12, 1, sharded(Sharding::zero3)), 2, kCudaSeed,
                        [&](const auto& p, const auto& k, int rank) {
                          return platform.backend(p, k, rank);
                        });
            CHECK(std::string(call) == "allocate");  // fewer than 37 of them
          } catch (const std::exception& e) {
            INFO(e.what());
            CHECK(std::string(e.what()).find("a failure that a test asked for") !=
                  std::string::npos);
          }
        }
        CHECK(twin.leaked() == 0);
      }
}

// Of 52 parameters; a launch takes 56.
TEST_CASE("the updates of a step are one launch") {
  const models::ModelSpec spec = tiny_gpt();
  on_twin(spec, tiny_job(spec, 4, "mixed"), strategy(1, 4, 2), 3);
  CHECK(launches["update"] == 3);
}
