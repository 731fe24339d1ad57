// The configuration of accelerate's launcher.
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
    CHECK((has(launch->text, line) ? "" : line) == std::string());
  CHECK_FALSE(has(launch->text, "parallelism_config"));
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
  CHECK(has(hybrid->text, "parallelism_config_dp_replicate_size: 2\n"
                          "  parallelism_config_dp_shard_size: 4\n"));
  CHECK(has(hybrid->text, "fsdp_reshard_after_forward: false"));
  CHECK(has(hybrid->text, "fsdp_offload_params: true"));

  const auto replicas = emitted("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    s.sharding = Sharding::none;
    s.shard_group = 1;
    plan.job.recipe = "pure_bf16";
  });
  REQUIRE(replicas.ok());
  CHECK(has(replicas->text, "distributed_type: MULTI_GPU\nmixed_precision: 'no'\n"));
  CHECK_FALSE(has(replicas->text, "fsdp_config"));

  CHECK(is_refused("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    plan.job.reduce_dtype.reset();
  }, "gradients summed in f32", "--reduce-dtype bf16"));
  CHECK(is_refused("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    s.sharding = Sharding::zero1;
  }, "sharding=zero1", "--pin sharding=zero3"));
  CHECK(is_refused("llama3-8b", "accelerate", [&](Plan& plan, Strategy& s) {
    plain(plan, s);
    plan.job.recipe = "mixed";
  }, "recipe=mixed", "--recipe fsdp2"));
}
