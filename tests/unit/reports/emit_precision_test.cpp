// Types of numbers in launch files.
#include "tests/unit/reports/emitted.hpp"

using namespace planner;
using namespace reports_test;

TEST_CASE("gradients are added up in f32 where the recipe says so, in fp16 too") {
  const auto in_f16 = [](const char* recipe) {
    return emitted("gpt2-124m", "megatron", [&](Plan& plan, Strategy&) {
      plan.job.precision = core::DType::f16;
      plan.job.recipe = recipe;
    })->text;
  };
  constexpr const char* kFlag = "--accumulate-allreduce-grads-in-fp32\n";
  CHECK(has(in_f16("megatron"), kFlag));  // by default Megatron-LM adds fp16 gradients in fp16
  CHECK_FALSE(has(in_f16("mixed"), kFlag));
}
