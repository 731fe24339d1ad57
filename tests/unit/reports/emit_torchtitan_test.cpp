#include <fmt/ranges.h>

#include "core/json.hpp"
#include "reports/emit/emit.hpp"
#include "tests/unit/reports/emitted.hpp"

using namespace planner;
using namespace reports_test;

namespace {

void as_fsdp2(Plan& plan, Strategy& s) {
  fully_sharded(plan, s);
  plan.job.recipe = "fsdp2";
}

void in_stages(Plan& plan, Strategy& s) {
  as_fsdp2(plan, s);
  plan.gpus = 16, plan.nodes = 2;
  s.pipeline = 2;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  s.stages = {1, 14, 15, 2};
}

}  // namespace

TEST_CASE("a plan of Llama becomes torchtitan's configuration in Python") {
  const auto launch = emitted("llama3-8b", "torchtitan_python", [](Plan& plan, Strategy& s) {
    in_stages(plan, s);
    plan.job.clip = 0.5;
    s.checkpoint = Checkpoint::selective_op;
  });
  REQUIRE(launch.ok());
  for (const char* line :
       {"model_registry(\"8B\", attn_backend=\"varlen\", converters=None)\n",
        "            data_parallel_replicate_degree=1,\n            "
        "data_parallel_shard_degree=8,\n",
        "            fsdp_reshard_after_forward=\"always\",\n",
        "            pipeline_parallel_degree=2,\n",
        "            pipeline_parallel_schedule=\"Interleaved1F1B\",\n",
        "            module_fqns_per_model_part=[[\"tok_embeddings\",\"layers.0\"],[\"layers.1\",",
        ",[\"layers.30\",\"layers.31\",\"norm\",\"lm_head\"]],\n", "            max_norm=0.5,\n",
        "            disable_cuda_graphs=True,\n", "activation_checkpoint=SelectiveAC.Config(),\n",
        "--nnodes 2 --nproc_per_node 8"})
    CHECK((has(launch->text.text(), line) ? "" : line) == std::string());
}

TEST_CASE("torchtitan's tokens of a pass and of a step follow from the batch") {
  const auto text = [](std::int64_t pipeline) {
    const auto launch = emitted("llama3-8b", "torchtitan_python", [&](Plan& plan, Strategy& s) {
      as_fsdp2(plan, s);
      plan.job.seq_len = 4096;
      plan.job.global_batch = 256;
      s.pipeline = pipeline;
      s.schedule = Schedule::one_f_one_b;
      s.micro_batch = 2;
      s.grad_accum = 16;
    });
    REQUIRE(launch.ok());
    return launch->text.text();
  };
  for (const std::int64_t pipeline : {1, 2}) {
    CHECK(has(text(pipeline), "num_tokens_per_microbatch_per_dp_rank=8192,\n"));
    CHECK(has(text(pipeline), "num_tokens_per_train_step=1048576,\n"));
  }
  CHECK(has(text(2), "num_pp_microbatches=16,\n"));
  CHECK_FALSE(has(text(1), "num_pp_microbatches"));
}

TEST_CASE("8-bit products and a compiler are components of torchtitan's configuration") {
  const auto launch = emitted("llama3-8b", "torchtitan_python", [](Plan& plan, Strategy& s) {
    as_fsdp2(plan, s);
    plan.job.precision = core::DType::f8;
    plan.job.fp8_scaling = "rowwise";
    s.tensor = 2;
    s.data = s.shard_group = 4;
    s.sequence_parallel = s.tp_overlap = true;
  });
  REQUIRE(launch.ok());
  CHECK(has(launch->text.text(), "Float8LinearConverter.Config(filter_fqns=[\"lm_head\"], "));
  CHECK(
      has(launch->text.text(), "CompileConfig(enable=True, enable_async_tensor_parallel=True)\n"));
}

TEST_CASE("what the main branch of torchtitan has no word for is refused with what to do") {
  const auto refused = [](auto change, const char* found, const char* fix) {
    return is_refused(
        "llama3-8b", "torchtitan_python",
        [&](Plan& plan, Strategy& s) {
          as_fsdp2(plan, s);
          change(plan, s);
        },
        found, fix);
  };
  CHECK(refused([](Plan&, Strategy& s) { s.context = 2; }, "context=2", "release 0.2"));
  CHECK(refused([](Plan& p, Strategy&) { p.job.precision = core::DType::f8; },
                "fp8_scaling=tensorwise", "--fp8-scaling rowwise"));
  CHECK(refused([](Plan& p, Strategy&) { p.job.reduce_dtype = core::DType::bf16; },
                "gradients summed in bf16", "--reduce-dtype f32"));
  CHECK(refused(
      [](Plan&, Strategy& s) {
        s.checkpoint = Checkpoint::every_k;
        s.checkpoint_every = 2;
      },
      "checkpoint=every_k(2)", "every_k(1)"));
  CHECK(refused([](Plan& p, Strategy&) { p.job.optimizer = OptimizerKind::adam; }, "optimizer=adam",
                "--optimizer adamw"));
  CHECK(is_refused("llama2-13b", "torchtitan_python", as_fsdp2, "model llama2-13b",
                   "emit for torchtitan"));
}

TEST_CASE("a plan that calls another size by torchtitan's name gets no flavor") {
  const auto lies = [](Plan& plan, Strategy& s) {
    as_fsdp2(plan, s);
    plan.model.ffn_hidden = 1024;
  };
  CHECK(is_refused("llama3-8b", "torchtitan_python", lies, "model llama3-8b", "release 0.2"));
  const auto own = emitted("llama3-8b", "torchtitan", lies);
  REQUIRE(own.ok());
  CHECK(has(own->text.text(), "flavor = \"of_your_own\""));
}
