#include "reports/emit/emit.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/json.hpp"
#include "tests/unit/reports/emitted.hpp"

using namespace planner;
using namespace reports_test;

TEST_CASE("a plan of GPT-2 becomes options of Megatron-LM, degree by degree") {
  const auto launch = emitted("gpt2-124m", "megatron");
  REQUIRE(launch.ok());
  for (const char* option :
       {"--num-layers 12\n", "--hidden-size 768\n", "--position-embedding-type learned_absolute\n",
        "--tensor-model-parallel-size 2\n", "--pipeline-model-parallel-size 1\n",
        "--use-distributed-optimizer\n", "--overlap-grad-reduce\n", "--micro-batch-size 8\n",
        "--global-batch-size 512\n", "--bf16\n", "--grad-reduce-in-bf16\n", "--vocab-size 50256\n",
        "--nproc_per_node 8 --nnodes 1"})
    CHECK((has(launch->text.text(), option) ? "" : option) == std::string());
  for (const char* option : {"--swiglu", "--sequence-parallel", "--fp8", "--recompute",
                             "--untie-embeddings", "layout", "virtual"})
    CHECK((has(launch->text.text(), option) ? option : "") == std::string());
}

TEST_CASE("a name that a shell or TOML would read as code stays a comment of one line") {
  for (const char* framework : {"megatron", "torchtitan"}) {
    const auto named = [&](const char* name) {
      return emitted("llama3-8b", framework, [&](Plan& plan, Strategy& s) {
        plan.model.name = name;
        if (std::string_view(framework) == "torchtitan") fully_sharded(plan, s);
      });
    };
    const auto plain = named("x"), lying = named("x\ntouch PWNED #\x1b]0;y\a\u202e");
    REQUIRE(plain.ok());
    REQUIRE(lying.ok());
    CHECK(std::ranges::count(plain->text.text(), '\n') ==
          std::ranges::count(lying->text.text(), '\n'));
    CHECK(has(lying->text.text(), "# x\\x0atouch PWNED #\\x1b]0;y\\x07\\u202e on 8 GPUs"));
  }
}

TEST_CASE("Megatron-LM gets stages, chunks, experts, context and recomputation as planned") {
  const auto launch = emitted("mixtral-8x7b", "megatron", [](Plan& plan, Strategy& s) {
    plan.job.precision = core::DType::f8;
    plan.job.recipe = "megatron";
    s.pipeline = 2;
    s.virtual_stages = 2;
    s.schedule = Schedule::interleaved;
    s.stages = {8, 8, 8, 8};
    s.expert = 4;
    s.sequence_parallel = true;
    s.context = 2;
    s.shard_group = 8;
    s.context_method = ContextMethod::ring;
    s.checkpoint = Checkpoint::every_k;
    s.checkpoint_every = 2;
  });
  REQUIRE(launch.ok());
  for (const char* option : {"--num-experts 8\n", "--moe-router-topk 2\n",
                             "--group-query-attention --num-query-groups 8\n",
                             "--expert-model-parallel-size 4\n", "--context-parallel-size 2\n",
                             "--cp-comm-type p2p\n", "--num-virtual-stages-per-pipeline-rank 2\n",
                             "--fp8-format hybrid\n", "--swiglu\n", "--recompute-num-layers 2\n",
                             "--untie-embeddings-and-output-weights\n", "--disable-bias-linear\n",
        "--expert-tensor-parallel-size 2\n", "--sequence-parallel\n"})
    CHECK((has(launch->text.text(), option) ? "" : option) == std::string());
  const auto beside = emitted("mixtral-8x7b", "megatron", [](Plan& plan, Strategy& s) {
    plan.job.recipe = "megatron";
    s.tensor = 1;
    s.data = s.shard_group = 8;
    s.sharding = Sharding::zero1;
    s.expert = 4;
    s.expert_overlap = true;
  });
  REQUIRE(beside.ok());
  CHECK(has(beside->text.text(), "--overlap-moe-expert-parallel-comm\n"));
  const auto whole = emitted("mixtral-8x7b", "megatron", [](Plan&, Strategy& s) {
    s.tensor = 2;
    s.sequence_parallel = true;
    s.data = s.shard_group = 4;
    s.sharding = Sharding::zero1;
    s.expert = 8;
    s.expert_tensor = 1;
  });
  if (!whole.ok()) FAIL(core::to_text(whole.problems()));
  CHECK(has(whole->text.text(), "--expert-model-parallel-size 8\n"));
  CHECK(has(whole->text.text(), "--expert-tensor-parallel-size 1\n"));
  CHECK_FALSE(has(launch->text.text(), "--grad-reduce-in-bf16"));  // recipe megatron adds up in f32
  const auto uneven = emitted("gpt2-124m", "megatron", [](Plan&, Strategy& s) {
    s.pipeline = 3;
    s.schedule = Schedule::one_f_one_b;
    s.stages = {4, 5, 3};
  });
  REQUIRE(uneven.ok());
  CHECK(has(uneven->text.text(), "--pipeline-model-parallel-layout 'Et*4|t*5|t*3L'\n"));
  const auto further = [](Plan& plan, Strategy& s) {
    plan.model.mtp_layers = plan.job.mtp_layers = 1;
    s.pipeline = 2;
    s.schedule = Schedule::one_f_one_b;
    s.stages = {17, 15};
  };
  const auto predicts = emitted("llama3-8b", "megatron", further);
  if (!predicts.ok()) FAIL(core::to_text(predicts.problems()));
  CHECK(has(predicts->text.text(), "--pipeline-model-parallel-layout 'Et*17|t*15mL'\n"));
  CHECK(has(predicts->text.text(), "--mtp-num-layers 1\n"));
  for (const char* framework : {"torchtitan", "deepspeed"})
    CHECK(core::to_text(emitted("llama3-8b", framework, further).problems()).find("--mtp 0") !=
          std::string::npos);
}

TEST_CASE("fp16 and GPUs without FlashAttention are emitted where the framework has them") {
  const auto on_v100 = [](Plan& plan, Strategy&) {
    plan.profile = hw_profiles::find_profile("v100-sxm-32g").value();
    plan.job.precision = core::DType::f16;
    plan.job.attention = "fused_softmax";
  };
  const auto launch = emitted("gpt2-1.5b", "megatron", on_v100);
  REQUIRE(launch.ok());
  CHECK(has(launch->text.text(), "--fp16\n"));
  CHECK(has(launch->text.text(), "--attention-backend unfused\n"));
  CHECK_FALSE(has(launch->text.text(), "--bf16"));
  CHECK(is_refused("gpt2-1.5b", "megatron", [&](Plan& plan, Strategy& s) {
    on_v100(plan, s);
    plan.job.attention = "flash1";
  }, "flash1", "plan with --framework megatron"));
  CHECK(is_refused("llama3-8b", "torchtitan", [&](Plan& plan, Strategy& s) {
    on_v100(plan, s);
    fully_sharded(plan, s);
  }, "fp16", "emit for deepspeed"));
}

TEST_CASE("the order of the mesh is said where it matters, or refused") {
  const auto stages = [](Plan&, Strategy& s) {
    s.pipeline = 2;
    s.schedule = Schedule::one_f_one_b;
    s.mesh_order = {Degree::tensor, Degree::pipeline, Degree::context, Degree::data};
  };
  const auto launch = emitted("gpt2-124m", "megatron", stages);
  REQUIRE(launch.ok());
  CHECK(has(launch->text.text(), "--use-tp-pp-dp-mapping\n"));
  CHECK(is_refused("gpt2-124m", "megatron",
                   [&](Plan& p, Strategy& s) {
                     stages(p, s);
                     s.mesh_order = {Degree::pipeline, Degree::tensor, Degree::context,
                                     Degree::data};
                   },
                   "mesh_order=pipeline,tensor", "--pin mesh_order=tensor"));
  // Degrees of one have no place.
  const auto alone = emitted("gpt2-124m", "megatron", [](Plan&, Strategy& s) {
    s.mesh_order = {Degree::pipeline, Degree::tensor, Degree::context, Degree::data};
  });
  REQUIRE(alone.ok());
  CHECK_FALSE(has(alone->text.text(), "mapping"));
}

TEST_CASE("what Megatron-LM does not have is refused with what to plan instead") {
  CHECK(
      is_refused("gpt2-124m", "megatron", fully_sharded, "sharding=zero3", "emit for torchtitan"));
  CHECK(is_refused("gpt2-124m", "megatron",
                   [](Plan&, Strategy& s) { s.schedule = Schedule::zb_h2, s.pipeline = 2; },
                   "schedule=zb_h2", "--pin schedule=1f1b"));
  CHECK(is_refused("gpt2-124m", "megatron",
                   [](Plan&, Strategy& s) { s.checkpoint = Checkpoint::memory_poor; },
                   "checkpoint=memory_poor", "--forbid checkpoint=memory_poor"));
  CHECK(is_refused("gpt2-124m", "megatron",
                   [](Plan&, Strategy& s) { s.offload = {"activations"}; }, "offload=activations",
                   "--forbid offload=activations"));
  CHECK(is_refused("mixtral-8x7b", "megatron",
                   [](Plan&, Strategy& s) { s.sequence_parallel = false; },
                   "experts and tensor ranks with sequence_parallel=false",
                   "plan with --pin sequence_parallel=true"));
  CHECK(is_refused("llama2-7b", "megatron", [](Plan& p, Strategy&) { p.job.lora_rank = 8; },
                   "lora_rank=8", "without --lora-rank"));
  CHECK(is_refused("alexnet", "megatron", {}, "family graph", "a transformer"));
  CHECK(is_refused("bert-large", "megatron", {}, "attention to later tokens", "a decoder"));
  CHECK(is_refused("pythia-1.4b", "megatron", {}, "residual=parallel", "residual=pre"));
  CHECK(is_refused("bloom-7b1", "megatron", {}, "position_kind=alibi", "learned or rotary"));
  CHECK(is_refused("opt-6.7b", "megatron", {}, "a feed-forward with ReLU", "GELU or SwiGLU"));
  CHECK(emitted("qwen3-8b", "megatron").ok());
}

TEST_CASE("Megatron-LM is asked for what the plan counts on") {
  const auto dense = emitted("llama3-8b", "megatron");
  REQUIRE(dense.ok());
  for (const char* option :
       {"--attention-dropout 0.0 --hidden-dropout 0.0\n", "--cross-entropy-loss-fusion\n",
        "--make-vocab-size-divisible-by 2\n", "--attention-backend flash\n"})
    CHECK((has(dense->text.text(), option) ? "" : option) == std::string());
  CHECK_FALSE(has(dense->text.text(), "force-load-balancing"));
  CHECK(has(dense->text.text(), "--rotary-base 500000\n"));
  const auto hopper = emitted("llama3-8b", "megatron", [](Plan& plan, Strategy&) {
    plan.profile = hw_profiles::find_profile("h100-sxm-80g").value();
    REQUIRE(hw_profiles::use_framework(plan.profile, "megatron_core", "a test").ok());
  });
  REQUIRE(hopper.ok());
  CHECK(
      has(hopper->text.text(), "--attention-backend fused\n"));  // cuDNN's, as megatron_core counts
  const auto mixture = emitted("mixtral-8x7b", "megatron", [](Plan&, Strategy& s) {
    s.sequence_parallel = true;
  });
  REQUIRE(mixture.ok());
  CHECK(has(mixture->text.text(), "--moe-router-force-load-balancing\n"));
}

TEST_CASE("what Megatron-LM accepts and then fails at is refused") {
  const auto every = [](std::int64_t k, std::vector<std::int64_t> stages) {
    return [=](Plan&, Strategy& s) {
      s.pipeline = std::ssize(stages);
      s.schedule = s.pipeline > 1 ? Schedule::one_f_one_b : Schedule::none;
      s.stages = stages;
      s.checkpoint = Checkpoint::every_k;
      s.checkpoint_every = k;
    };
  };
  CHECK(emitted("gpt2-124m", "megatron", every(3, {12})).ok());
  CHECK(is_refused("gpt2-124m", "megatron", every(5, {12}), "checkpoint=every_k(5)",
                   "every_k(1)"));
  CHECK(is_refused("gpt2-124m", "megatron", every(3, {6, 4, 2}), "checkpoint=every_k(3)",
                   "every_k(1)"));
  const auto offloaded = [](Plan&, Strategy& s) {
    s.offload = {"optimizer"};
    s.sharding = Sharding::none;
    s.shard_group = 1;
  };
  CHECK(is_refused("gpt2-124m", "megatron", offloaded, "offload=optimizer without zero1",
                   "--pin sharding=zero1"));
  const auto alone = emitted("gpt2-124m", "megatron", [&](Plan& plan, Strategy& s) {
    offloaded(plan, s);
    s.data = 1;
  });
  REQUIRE(alone.ok());
  CHECK(has(alone->text.text(), "--use-distributed-optimizer\n"));
  const auto sgd = [](Plan& plan, Strategy&) { plan.job.optimizer = OptimizerKind::sgd; };
  CHECK(is_refused("gpt2-124m", "megatron", sgd, "optimizer=sgd with zero1",
                   "--pin sharding=none"));
}

TEST_CASE("torchtitan's file has every stage's modules, the optimizer and 8-bit products") {
  const auto launch = emitted("llama3-8b", "torchtitan", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    plan.job.precision = core::DType::f8;
    plan.gpus = 16, plan.nodes = 2;
    s.pipeline = 2;
    s.virtual_stages = 2;
    s.schedule = Schedule::interleaved;
    s.stages = {1, 14, 15, 2};
  });
  REQUIRE(launch.ok());
  for (const char* line :
       {"[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = "
        "[\"quantize.linear.float8\"]\n",
        "[optimizer]\nname = \"AdamW\"\n",
        "module_fqns_per_model_part = [\n  [\"tok_embeddings\", \"layers.0\"],\n  "
        "[\"layers.1\", ",
        "  [\"layers.30\", \"layers.31\", \"norm\", \"output\"],\n]\n",
        "--nnodes 2 --nproc_per_node 8"})
    CHECK((has(launch->text.text(), line) ? "" : line) == std::string());
  CHECK(has(emitted("llama3-8b", "torchtitan", fully_sharded)->text.text(),
            "NGPU=8 ./run_train.sh\n"));
}

TEST_CASE("what torchtitan would run as another job, or not at all, is refused") {
  CHECK(is_refused("llama3-8b", "torchtitan", [](Plan&, Strategy& s) {
    s.sharding = Sharding::none;
    s.shard_group = 1;
    s.sequence_parallel = true;
  }, "sharding=none with data ranks", "--pin sharding=zero3"));
  CHECK(is_refused("llama3-8b", "torchtitan", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    s.checkpoint = Checkpoint::pointwise;
  }, "checkpoint=pointwise", "--forbid checkpoint=pointwise"));
  CHECK(is_refused("llama3-8b", "torchtitan", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    plan.job.optimizer = OptimizerKind::sgd;
  }, "optimizer=sgd", "--optimizer adamw"));
  const auto hidden = emitted("llama3-8b", "torchtitan", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    s.tensor = 2;
    s.data = s.shard_group = 4;
    s.sequence_parallel = s.tp_overlap = true;
  });
  REQUIRE(hidden.ok());
  CHECK(has(hidden->text.text(), "[compile]\nenable = true\n"));
}

TEST_CASE("a plan of Llama becomes torchtitan's job file") {
  const auto launch = emitted("llama3-8b", "torchtitan", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    s.data = 16;
    s.context = 2;
    s.shard_group = 8;
    s.pipeline = 2;
    s.schedule = Schedule::zb_v;
    s.checkpoint = Checkpoint::selective_op;
  });
  REQUIRE(launch.ok());
  for (const char* line :
       {"flavor = \"8B\"\n", "data_parallel_replicate_degree = 4\n",
        "data_parallel_shard_degree = 4\n", "fsdp_reshard_after_forward = \"always\"\n",
        "context_parallel_degree = 2\n", "context_parallel_rotate_method = \"allgather\"\n",
        "pipeline_parallel_schedule = \"ZBVZeroBubble\"\n",
        "pipeline_parallel_microbatch_size = 8\n", "local_batch_size = 128\n",
        "global_batch_size = 512\n", "mode = \"selective\"\nselective_ac_option = \"op\"\n"})
    CHECK((has(launch->text.text(), line) ? "" : line) == std::string());
  CHECK(is_refused("gpt2-124m", "torchtitan", fully_sharded, "family gpt2", "emit for megatron"));
  CHECK(is_refused("llama3-8b", "torchtitan", {}, "sharding=zero1", "--pin sharding=zero3"));
  const auto own = emitted("llama2-13b", "torchtitan", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    plan.job.framework = "fsdp2";      // nothing to say of another framework
  });
  REQUIRE(own.ok());
  CHECK(has(own->text.text(), "flavor = \"of_your_own\""));
  CHECK(has(own->notes.front(), "dim=5120, n_layers=40, n_heads=40, n_kv_heads=40"));
  CHECK(has(own->notes.front(), "multiple_of=13824, ffn_dim_multiplier=0.5062"));
}

TEST_CASE("what every_k meant to the plan's framework is said where the other does otherwise") {
  const auto said = [](const char* framework, bool one_in_k, std::int64_t k) {
    const auto launch = emitted("llama3-8b", framework, [&](Plan& plan, Strategy& s) {
      plan.profile.framework.recomputes_one_in_k = one_in_k;
      s.sharding = Sharding::none;
      s.shard_group = 1;
      s.tensor = 1;
      s.checkpoint = Checkpoint::every_k;
      s.checkpoint_every = k;
    });
    REQUIRE(launch.ok());
    return has(fmt::format("{}", fmt::join(launch->notes, "\n")), "one layer in 2");
  };
  CHECK(said("torchtitan", false, 2));
  CHECK_FALSE(said("torchtitan", true, 2));
  CHECK(said("megatron", true, 2));
  CHECK_FALSE(said("megatron", false, 2));
  for (const char* framework : {"torchtitan", "megatron"})
    for (const bool one_in_k : {false, true}) CHECK_FALSE(said(framework, one_in_k, 1));
}

TEST_CASE("first_k is Megatron's block method, and torchtitan has nothing like it") {
  const auto first = [](Plan&, Strategy& s) {
    s.sharding = Sharding::none;
    s.shard_group = 1;
    s.sequence_parallel = true;
    s.checkpoint = Checkpoint::first_k;
    s.checkpoint_every = 3;
  };
  const auto launch = emitted("llama3-8b", "megatron", first);
  REQUIRE(launch.ok());
  CHECK(has(launch->text.text(), "--recompute-method block --recompute-num-layers 3"));
  CHECK_FALSE(emitted("llama3-8b", "torchtitan", first).ok());
}

TEST_CASE("modules that are computed again are words of their own for Megatron-LM") {
  const auto launch = emitted("llama3-8b", "megatron", [](Plan&, Strategy& s) {
    s.checkpoint = Checkpoint::modules;
    using enum models::Module;
    s.recompute_modules = models::both(models::set_of(core_attn), models::set_of(mlp));
  });
  REQUIRE(launch.ok());
  CHECK(has(launch->text.text(),
            "--recompute-modules core_attn mlp\n"));  // one word would be refused
}

TEST_CASE("a plan of data ranks becomes DeepSpeed's configuration") {
  const auto launch = emitted("gpt2-124m", "deepspeed", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    s.offload = {"optimizer"};
  });
  REQUIRE(launch.ok());
  const auto file = core::parse_json(launch->text.text(), "launch");
  REQUIRE(file.ok());
  CHECK(file->find("train_micro_batch_size_per_gpu")->as_int64() == 8);
  CHECK(file->find("gradient_accumulation_steps")->as_int64() == 16);
  const core::Json& zero = *file->find("zero_optimization");
  CHECK(zero.find("stage")->as_int64() == 3);
  CHECK(zero.find("offload_optimizer")->find("device")->as_string() == "cpu");
  CHECK(zero.find("offload_param") == nullptr);
  CHECK(file->find("optimizer")->find("type")->as_string() == "AdamW");
  CHECK(file->find("zero_allow_untested_optimizer") == nullptr);
  const auto sgd = emitted("gpt2-124m", "deepspeed", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    plan.job.optimizer = OptimizerKind::sgd;
    plan.job.reduce_dtype = core::DType::bf16;
  });
  REQUIRE(sgd.ok());
  CHECK(has(sgd->text.text(), "\"zero_allow_untested_optimizer\": true"));
  CHECK(has(sgd->text.text(), "\"communication_data_type\": \"bf16\""));
  CHECK(is_refused("gpt2-124m", "deepspeed", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    s.checkpoint = Checkpoint::every_k;
    s.checkpoint_every = 2;
  }, "checkpoint=every_k(2)", "none|every_k(1)"));
  CHECK(is_refused("gpt2-124m", "deepspeed", [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    plan.job.precision = core::DType::f8;
  }, "precision fp8", "--precision bf16"));
  CHECK(is_refused("gpt2-124m", "deepspeed", {}, "tensor=2", "--pin tensor=1"));
}
