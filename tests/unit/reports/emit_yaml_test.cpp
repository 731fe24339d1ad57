// The files of accelerate's launcher and of nanotron.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/unit/reports/emitted.hpp"

using namespace planner;
using namespace reports_test;

TEST_CASE("a plan of data ranks becomes the file of accelerate launch, with notes for the script") {
  const auto plain = [](Plan& plan, Strategy& s) {
    fully_sharded(plan, s);
    plan.job.recipe = "fsdp2";
    plan.job.reduce_dtype = core::DType::bf16;
    plan.job.clip = 1;
  };
  const auto launch = emitted("llama3-8b", "accelerate", plain);
  REQUIRE(launch.ok());
  for (const char* line : {"distributed_type: FSDP\n", "mixed_precision: bf16\n",
                           "num_processes: 8\n", "  fsdp_version: 2\n",
                           "  fsdp_reshard_after_forward: true\n",
                           "  fsdp_activation_checkpointing: false\n"})
    CHECK((has(launch->text.text(), line) ? "" : line) == std::string());
  CHECK_FALSE(has(launch->text.text(), "parallelism_config"));
  const std::string notes = fmt::format("{}", fmt::join(launch->notes, "\n"));
  CHECK(has(notes, "micro_batch=8 samples of seq_len="));
  CHECK(has(notes, "clip_grad_norm_(parameters, 1)"));

  const auto hybrid = emitted("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    s.shard_group = 4;
    s.sharding = Sharding::zero2;
    s.offload = {"params"};
  });
  REQUIRE(hybrid.ok());
  CHECK(has(hybrid->text.text(),
            "parallelism_config_dp_replicate_size: 2\n"
            "  parallelism_config_dp_shard_size: 4\n"));
  CHECK(has(hybrid->text.text(), "fsdp_reshard_after_forward: false"));
  CHECK(has(hybrid->text.text(), "fsdp_offload_params: true"));

  const auto replicas = emitted("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    s.sharding = Sharding::none;
    s.shard_group = 1;
    plan.job.recipe = "pure_bf16";
  });
  REQUIRE(replicas.ok());
  CHECK(has(replicas->text.text(), "distributed_type: MULTI_GPU\nmixed_precision: 'no'\n"));
  CHECK_FALSE(has(replicas->text.text(), "fsdp_config"));

  // What accelerate's own policy does not do is a policy in the script.
  const auto wide = emitted("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    plan.job.reduce_dtype.reset();
  });
  REQUIRE(wide.ok());
  const auto has_policy = [](const std::string& note) {
    return has(note, "(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)");
  };
  CHECK(std::ranges::any_of(wide->notes, has_policy));
  CHECK(std::ranges::none_of(hybrid->notes, has_policy));
  CHECK(is_refused("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    s.sharding = Sharding::zero1;
  }, "sharding=zero1", "--pin sharding=zero3"));
  CHECK(is_refused("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    plan.job.recipe = "mixed";
  }, "recipe=mixed", "--recipe fsdp2"));
}

TEST_CASE("a plan of a Llama becomes nanotron's file, and what nanotron lacks is refused") {
  const auto plain = [](Plan& plan, Strategy& s) {
    s.data = 2;
    s.tensor = 2;
    s.pipeline = 2;
    s.schedule = Schedule::one_f_one_b;
    s.sequence_parallel = true;
    s.sharding = Sharding::zero1;
    s.shard_group = 2;
    s.bucket_bytes = 50 << 20;
    plan.job.recipe = "megatron";
    plan.job.clip = 1;
  };
  const auto launch = emitted("llama3-8b", "nanotron", plain);
  if (!launch.ok()) FAIL(core::to_text(launch.problems()));
  for (const char* line :
       {"  dp: 2\n  pp: 2\n  tp: 2\n  pp_engine: 1f1b\n", "  tp_mode: REDUCE_SCATTER\n",
        "  zero_stage: 1\n", "  accumulate_grad_in_fp32: true\n", "  clip_grad: 1.000000\n",
        "  ddp_bucket_cap_mb: 25\n", "    num_key_value_heads: 8\n", "    vocab_size: 128256\n",
        "    tie_word_embeddings: false\n", "  dtype: bfloat16\n"})
    CHECK((has(launch->text.text(), line) ? "" : line) == std::string());

  CHECK(is_refused("gpt2-124m", "nanotron", plain, "model gpt2-124m", "emit for megatron"));
  CHECK(is_refused("llama3-8b", "nanotron", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    s.sharding = Sharding::zero3;
  }, "sharding=zero3", "--pin sharding='none|zero1'"));
  CHECK(is_refused("llama3-8b", "nanotron", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    s.schedule = Schedule::interleaved;
  }, "schedule=interleaved", "--pin schedule=1f1b"));
}
