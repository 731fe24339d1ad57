// Types of numbers in launch files, and limits of them.
#include "tests/unit/reports/emitted.hpp"

using namespace planner;
using namespace reports_test;

TEST_CASE("gradients are added up in f32 where the recipe says so, in fp16 too") {
  const auto in_f16 = [](const char* recipe) {
    return emitted("gpt2-124m", "megatron",
                   [&](Plan& plan, Strategy&) {
                     plan.job.precision = core::DType::f16;
                     plan.job.recipe = recipe;
                   })
        ->text.text();
  };
  constexpr const char* kFlag = "--accumulate-allreduce-grads-in-fp32\n";
  CHECK(has(in_f16("megatron"), kFlag));  // by default Megatron-LM adds fp16 gradients in fp16
  CHECK_FALSE(has(in_f16("mixed"), kFlag));
}

TEST_CASE("a limit of the gradients' norm is written in each framework's own words") {
  const auto limited = [](const char* model, const char* framework, double clip) {
    const auto launch = emitted(model, framework, [&](Plan& plan, Strategy& s) {
      plan.job.clip = clip;
      if (framework == std::string("deepspeed")) s.data = s.shard_group = 8, s.tensor = 1;
      if (framework == std::string("torchtitan")) fully_sharded(plan, s);
    });
    REQUIRE(launch.ok());
    return launch->text.text();
  };
  CHECK(has(limited("gpt2-124m", "megatron", 0.5), "  --clip-grad 0.5\n"));
  CHECK(has(limited("gpt2-124m", "megatron", 0), "  --clip-grad 0\n"));
  CHECK(has(limited("llama3-8b", "torchtitan", 0.5), "\nmax_norm = 0.5\n"));
  CHECK(has(limited("llama3-8b", "torchtitan", 0), "\nmax_norm = 1000000000\n"));
  CHECK(has(limited("gpt2-124m", "deepspeed", 0.5), "\"gradient_clipping\": 0.5"));
  CHECK(has(limited("gpt2-124m", "deepspeed", 0), "\"gradient_clipping\": 0.0"));
}

TEST_CASE("a fixed loss scale is emitted where the framework has one") {
  const auto dynamic = [](Plan& plan, Strategy& s) {
    plan.job.precision = core::DType::f16;
    s.data = s.shard_group = 8;
    s.tensor = 1;
  };
  const auto fixed = [&](Plan& plan, Strategy& s) {
    dynamic(plan, s);
    plan.job.loss_scale = 1'024;
  };
  CHECK(has(emitted("gpt2-1.5b", "megatron", fixed)->text.text(), "--loss-scale 1024\n"));
  CHECK_FALSE(has(emitted("gpt2-1.5b", "megatron", dynamic)->text.text(), "--loss-scale"));
  CHECK(has(emitted("gpt2-1.5b", "deepspeed", fixed)->text.text(), "\"loss_scale\": 1024.0"));
  CHECK(has(emitted("gpt2-1.5b", "deepspeed", dynamic)->text.text(), "\"loss_scale\": 0.0"));
  CHECK(is_refused("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plan.job.recipe = "fsdp2";
    fixed(plan, s);
  }, "loss_scale=1024", "plan without --loss-scale"));
}

TEST_CASE("weights in 8 bits are asked for by each framework's own name, or refused") {
  const auto f8 = [](const char* recipe, Sharding sharding, bool params) {
    return [=](Plan& plan, Strategy& s) {
      plan.job.precision = core::DType::f8;
      plan.job.recipe = recipe;
      if (params) plan.job.fp8_tensors = {"params"};
      fully_sharded(plan, s);
      s.sharding = sharding;
      if (sharding == Sharding::none) s.shard_group = 1;
    };
  };
  const auto text = [&](const char* framework, const char* recipe, Sharding sharding,
                        bool params) {
    const auto launch = emitted("llama3-8b", framework, f8(recipe, sharding, params));
    REQUIRE(launch.ok());
    return launch->text.text();
  };
  constexpr const char* kFlag = "--fp8-param-gather\n";
  CHECK(has(text("megatron", "megatron", Sharding::zero1, true), kFlag));
  CHECK_FALSE(has(text("megatron", "megatron", Sharding::zero1, false), kFlag));
  CHECK(has(text("megatron_bridge", "megatron", Sharding::zero1, true),
            "fp8_param_gather=True"));
  CHECK(has(text("megatron_bridge", "megatron", Sharding::zero1, false),
            "fp8_param_gather=False"));
  CHECK(has(text("torchtitan", "fsdp2", Sharding::zero3, true),
            "enable_fsdp_float8_all_gather = true\n"
            "precompute_float8_dynamic_scale_for_fsdp = true\n"));
  CHECK(has(text("torchtitan", "fsdp2", Sharding::zero3, false),
            "enable_fsdp_float8_all_gather = false\n"));
  CHECK(is_refused("llama3-8b", "megatron", f8("megatron", Sharding::none, true),
                   "fp8_tensors=params without zero1", "--pin sharding=zero1"));
  CHECK(is_refused("llama3-8b", "torchtitan_python", f8("fsdp2", Sharding::zero3, true),
                   "fp8_tensors", "--fp8-scaling rowwise"));
  CHECK(is_refused("llama3-8b", "megatron", [](Plan& plan, Strategy&) {
    plan.job.precision = core::DType::f8;
    plan.job.fp8_tensors = {"attention_output"};
  }, "fp8_tensors", "--fp8-tensors params"));
}

TEST_CASE("products in 4 bits are asked for by Megatron's options, and of no other framework") {
  const auto f4 = [](Plan& plan, Strategy& s) {
    plan.job.precision = core::DType::f4;
    plan.job.recipe = "megatron";
    fully_sharded(plan, s);
    s.sharding = Sharding::zero1;
  };
  const auto text = [&](const char* framework) {
    const auto launch = emitted("llama3-8b", framework, f4);
    REQUIRE(launch.ok());
    return launch->text.text();
  };
  CHECK(has(text("megatron"), "--fp4-format e2m1 --fp4-recipe nvfp4\n"));
  CHECK_FALSE(has(text("megatron"), "--fp8"));
  CHECK(has(text("megatron_bridge"), "fp4=\"e2m1\""));
  CHECK(has(text("megatron_bridge"), "fp4_recipe=\"nvfp4\""));
  for (const char* other : {"torchtitan", "deepspeed", "accelerate", "llama_factory"}) {
    INFO(other);
    CHECK(is_refused("llama3-8b", other, f4, "precision nvfp4", "--precision"));
  }
}

TEST_CASE("a loss in pieces is Liger's where transformers trains, and refused elsewhere") {
  const auto in_pieces = [](Plan& plan, Strategy& s) {
    plan.job.framework = "trainer";
    plan.job.lora_rank = 16;
    plan.job.lora_targets = {"q", "v"};
    s.tensor = 1;
    s.data = 8;
    s.sharding = Sharding::none;
    s.shard_group = 1;
    s.loss_chunks = 8;
  };
  const auto text = [&](const char* model, const char* framework) {
    const auto launch = emitted(model, framework, in_pieces);
    if (!launch.ok()) FAIL(core::to_text(launch.problems()));
    return launch->text.text();
  };
  const std::string axolotl = text("qwen2.5-7b", "axolotl");
  CHECK(has(axolotl, "axolotl.integrations.liger.LigerPlugin"));
  CHECK(has(axolotl, "liger_fused_linear_cross_entropy: true\n"));
  CHECK(has(text("llama3-8b", "llama_factory"), "enable_liger_kernel: true\n"));
  const auto whole = [&](const char* recipe) {
    return [&in_pieces, recipe](Plan& plan, Strategy& s) {
      in_pieces(plan, s);
      plan.job.lora_rank = 0;
      plan.job.recipe = recipe;
    };
  };
  for (const auto& [framework, recipe] :
       {std::pair{"deepspeed", "mixed"}, {"accelerate", "fsdp2"}}) {
    const auto of_script = emitted("qwen2.5-7b", framework, whole(recipe));
    if (!of_script.ok()) FAIL(core::to_text(of_script.problems()));
    CHECK(std::ranges::any_of(of_script->notes, [](const std::string& note) {
      return has(note, "loss_chunks=8: by Liger's");
    }));
  }
  CHECK(is_refused("llama3-8b", "torchtitan", whole("fsdp2"), "loss_chunks=8",
                   "--pin loss_chunks=1"));
  CHECK(is_refused("gpt2-1.5b", "axolotl", in_pieces, "loss_chunks=8 of family gpt2",
                   "--pin loss_chunks=1"));
}
