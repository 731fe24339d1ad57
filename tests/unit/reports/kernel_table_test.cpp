// `explain kernels`: the kernels of a step add up to it, and none is under its roofline.
#include "reports/kernel_table.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "core/json.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports;
using planner::KernelTime;
using planner::KernelTimes;
using planner_test::pinned_plan;
using planner_test::question;

namespace {

KernelTimes times_of(const planner::Plan& plan) {
  const auto times = planner::kernel_times(plan, *plan.chosen);
  REQUIRE(times.ok());
  return *times;
}

planner::Plan on_one_gpu(const std::string& model, const std::string& framework = "native") {
  planner::Request r = question(model, 1, "h100-sxm-80g");
  r.job.framework = framework;
  REQUIRE(hw_profiles::use_framework(r.profile, framework, "test").ok());
  r.brief = true;
  return pinned_plan(r);
}

const KernelTime& kernel(const KernelTimes& times, const std::string& name) {
  const auto found = std::ranges::find(times.kernels, name, &KernelTime::kernel);
  REQUIRE(found != times.kernels.end());
  return *found;
}

}  // namespace

TEST_CASE("the kernels of one GPU add up to its step, and their products to the model's FLOPs") {
  for (const char* model : {"gpt2-124m", "qwen3-0.6b", "resnet-50"}) {
    INFO(model);
    const planner::Plan plan = on_one_gpu(model);
    const KernelTimes times = times_of(plan);
    CHECK(std::abs(times.time / plan.chosen->time.step - 1) < 1e-9);
    CHECK(times.host == core::Seconds{});
    CHECK(std::ranges::is_sorted(times.kernels, std::greater{}, &KernelTime::time));
    for (const KernelTime& k : times.kernels) {
      INFO(k.kernel);
      CHECK(k.count > 0);
      CHECK(k.roofline <= k.time * (1 + 1e-12));
      CHECK(k.roofline.value() > 0);
    }
  }
}

TEST_CASE("what a kernel computes and moves is its operands' shapes") {
  planner::Request r = question("gpt2-124m", 1, "h100-sxm-80g");
  r.job.recipe = "mixed";
  r.job.seq_len = 1024;
  r.job.global_batch = 16;
  const planner::Plan plan =
      pinned_plan(r, {"micro_batch=8", "checkpoint=none", "offload=none", "loss_chunks=1"});
  const KernelTimes times = times_of(plan);
  // 12 layers, 2 micro-batches of 8 x 1024 rows: [8192, 768] x [768, 3072], in bf16.
  const KernelTime& up = kernel(times, "forward mlp.fc");
  const double rows = 8 * 1024, hidden = 768, wide = 3072, calls = 12 * 2;
  CHECK(up.count == 12 * 2);
  CHECK(up.flops.value() == calls * 2 * rows * hidden * wide);
  const double bias = wide * 2;
  CHECK(static_cast<double>(up.bytes.value()) ==
        calls * (2 * (rows * hidden + hidden * wide + rows * wide) + bias));
  CHECK(up.by_compute);
  // The causal half of four products of rows x keys, of which forward has two.
  const double square = 2 * 8 * 1024.0 * 1024.0 * hidden;
  CHECK(kernel(times, "forward attn.core").flops.value() / calls == square * 2 * 0.5);
  // Weights in bf16, their f32 copy, momentum and variance are read and written, gradients in bf16
  // are read.
  const KernelTime& update = kernel(times, "optimizer");
  CHECK(update.bytes.value() == 124'439'808LL * (2 * (2 + 4 + 4 + 4) + 2));
  CHECK_FALSE(update.by_compute);
}

TEST_CASE("a host that issues kernels slowly has a line of its own") {
  planner::Request r = question("gpt2-124m", 1, "h100-sxm-80g");
  r.job.framework = "trainer";
  REQUIRE(hw_profiles::use_framework(r.profile, "trainer", "test").ok());
  r.job.seq_len = 64;
  r.job.global_batch = 1;
  const planner::Plan plan = pinned_plan(r, {"micro_batch=1"});
  const KernelTimes times = times_of(plan);
  CHECK(std::abs(times.time / plan.chosen->time.step - 1) < 1e-9);
  CHECK(times.host.value() > 0);
  CHECK(reports_test::has(kernel_table_text(plan, times, {}), "waiting for the host"));
}

TEST_CASE("of a pipeline the rank whose kernels take longest is told") {
  planner::Request r = question("gpt2-1.5b", 4, "a100-sxm-80g");
  const planner::Plan plan = pinned_plan(r, {"pipeline=4", "schedule=1f1b", "stages=13,12,12,11"});
  const KernelTimes times = times_of(plan);
  CHECK(times.time <= plan.chosen->time.step);
  CHECK(times.time > 0.5 * plan.chosen->time.step);
  const auto json = core::parse_json(kernel_table_json(plan, times), "test");
  REQUIRE(json.ok());
  CHECK(reports_test::has(kernel_table_json(plan, times), "\"schema\": \"kernels/1\""));
  const std::string page = kernel_table_text(plan, times, {});
  CHECK(reports_test::has(page, "Kernels of rank"));
  CHECK(reports_test::has(page, "weight_gradient mlp.fc"));
}
