// What a job does on GPUs without bf16, FlashAttention-2 or fp8 where nothing is asked for, what it
// is refused, and plans on every shipped GPU.

#include "planner/strategy/job_check.hpp"

#include <algorithm>

#include "tests/unit/planner/asked.hpp"

using namespace planner;
using planner_test::pinned_plan;
using planner_test::question;

namespace {

using core::DType;

hw_profiles::Profile gpu(const std::string& name, const std::string& framework = "native") {
  hw_profiles::Profile p = hw_profiles::find_profile(name).value();
  REQUIRE(hw_profiles::use_framework(p, framework, "test").ok());
  return p;
}

Job job() {
  Job j;
  j.seq_len = 1024;
  j.global_batch = 8;
  return j;
}

std::string problem(const Job& j, const std::string& on) {
  const core::Problems found = job_problems(j, gpu(on));
  return found.empty() ? std::string() : core::to_text(found);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("where nothing is asked for, older GPUs take fp16 and a kernel that they have") {
  for (const char* older : {"v100-sxm-16g", "v100-pcie-16g", "t4", "rtx2080ti"}) {
    INFO(older);
    Job j = job();
    const auto said = take_usual(j, gpu(older), true, true);
    CHECK(j.precision == DType::f16);
    CHECK(j.attention == "flash1");
    REQUIRE(said.size() == 2);
    CHECK(has(said[0], "precision fp16"));
    CHECK(has(said[1], "FlashAttention-2 has no kernels for"));
    CHECK(job_problems(j, gpu(older)).empty());
    Job stored = job();
    take_usual(stored, gpu(older, "megatron"), true, true);
    CHECK(stored.attention == "fused_softmax");  // Megatron has no other kernel there
  }
  for (const char* newer : {"rtx3060-12g", "a10", "l4", "h20-sxm-96g", "rtx5090", "gb200-186g"}) {
    Job j = job();
    CHECK(take_usual(j, gpu(newer), true, true).empty());
    CHECK(j == job());
  }
}

TEST_CASE("what is asked for stays, and is refused with what to ask for instead") {
  Job j = job();
  CHECK(take_usual(j, gpu("t4"), false, false).empty());
  CHECK(j == job());
  CHECK(has(problem(j, "t4"), "expected a type that t4 computes, found bf16, of recipe mixed; "
                              "choose --precision fp16"));
  CHECK(has(problem(j, "t4"), "found flash2; choose --attention flash1"));
  j.attention = "unfused";
  j.recipe = "lean";
  CHECK(take_usual(j, gpu("v100-sxm-32g"), true, false).empty());  // lean has no f16
  CHECK(
      has(problem(j, "v100-sxm-32g"), "choose --recipe mixed --precision fp16, or --recipe fp32"));
  j.recipe = "fp32";
  CHECK(take_usual(j, gpu("v100-sxm-32g"), true, false).empty());
  CHECK(j.precision == DType::bf16);   // of which fp32 makes nothing
  CHECK(problem(j, "v100-sxm-32g").empty());
  j.recipe = "mixed";
  j.precision = DType::f8;
  CHECK(has(problem(j, "a10"), "found fp8; choose bf16 or another GPU"));
  CHECK(has(problem(j, "t4"), "found fp8; choose fp16 or another GPU"));
  for (const char* with_f8 : {"l4", "l40s", "rtx4080", "h20-sxm-96g", "rtx5090"})
    CHECK(problem(j, with_f8).empty());
  j.precision = DType::f4;
  CHECK(has(problem(j, "h100-sxm-80g"), "found nvfp4; choose bf16 or another GPU"));
  CHECK(has(problem(j, "gb200-186g"), "found nvfp4 with framework native; "
                                      "add --framework megatron_core"));
  CHECK(job_problems(j, gpu("gb200-186g", "megatron_core")).empty());
}

TEST_CASE("a plan says where no run of its GPU is known") {
  const auto said = [](const char* name) {
    Request r = planner_test::question("gpt2-124m", 1, name);
    r.top = 0;
    take_usual(r.job, r.profile, true, true);
    const Plan plan = planner_test::pinned_plan(r);
    return std::ranges::any_of(plan.assumptions,
                               [](const std::string& a) {
                                 return has(a, "since no run on") || has(a, "no run on GPUs like");
                               });
  };
  CHECK(said("v100-sxm-32g"));
  CHECK(said("rtx3080"));
  CHECK_FALSE(said("rtx3090"));
  CHECK_FALSE(said("h100-sxm-80g"));
}

TEST_CASE("every shipped GPU plans GPT-2 1.5B on eight within its memory at a plausible rate") {
  for (const std::string& name : hw_profiles::profile_names()) {
    if (name == "host") continue;
    INFO(name);
    Request r = planner_test::question("gpt2-1.5b", 8, name);
    r.top = 0;
    take_usual(r.job, r.profile, true, true);
    const Plan plan = planner_test::pinned_plan(r);
    REQUIRE(plan.chosen);
    CHECK(plan.chosen->throughput.mfu > 0.2);
    CHECK(plan.chosen->throughput.mfu < 0.76);
    CHECK(plan.chosen->memory.worst.device <= plan.profile.gpu.usable);
    CHECK(plan.chosen->strategy.offload.empty());
  }
}

TEST_CASE("defaults are rounded up to the GPUs and a given batch is left alone") {
  const Plan rounded = pinned_plan(question("gpt2-124m", 3, "h100-sxm-80g"));
  CHECK(rounded.job.global_batch == 513);
  const models::ModelSpec model = models::find_model("llama3.1-405b").value();  // 2048 samples
  CHECK(default_global_batch(model, {}, 768) == 2304);
  CHECK(default_global_batch(model, {}, 16384) == 2048);  // not a sample for each GPU
  CHECK(default_global_batch(model, {}, 3 * 8192) == 2048);
  CHECK(default_global_batch(model, {}, 3 * 683) == 2049);
  CHECK(default_global_batch(model, {}, 16381) == 2048);  // a prime
  Request r = question("gpt2-124m", 4, "h100-sxm-80g");
  r.job.global_batch = 20;
  CHECK(pinned_plan(r).job.global_batch == 20);
}

TEST_CASE("fine-tuning has samples and a batch of its own where none are asked for") {
  const models::ModelSpec llama = models::find_model("llama3-8b").value();  // 8,192 tokens
  const models::ModelSpec gpt2 = models::find_model("gpt2-124m").value();   // 1,024
  Job train, finetune, adapters;
  finetune.mode = Mode::finetune;
  adapters.lora_rank = 16;
  CHECK(default_seq_len(llama, train) == 8192);
  for (const Job& job : {finetune, adapters}) {
    CHECK(default_seq_len(llama, job) == 2048);
    CHECK(default_seq_len(gpt2, job) == 1024);
    CHECK(default_global_batch(llama, job, 8) == 64);
    CHECK(default_global_batch(llama, job, 3) == 66);
  }
  Request r = question("llama3-8b", 8, "h100-sxm-80g");
  r.job.mode = Mode::finetune;
  const Plan plan = pinned_plan(r);
  CHECK(plan.job.seq_len == 2048);
  const auto stated = [&](const char* text) { return std::ranges::count(plan.assumptions, text); };
  CHECK(stated("sequence length 2048: usual for fine-tuning") == 1);
  CHECK(stated("global batch 64 samples: usual for fine-tuning") == 1);
}
