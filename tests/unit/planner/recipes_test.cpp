#include "planner/question/job.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {
double state(std::string_view recipe, OptimizerKind kind) {
  return state_bytes_per_parameter(*resolve_recipe(recipe), optimizer(kind));
}
}  // namespace

TEST_CASE("recipes with Adam hold the bytes per parameter of the founding laws") {
  // M1: 4 weight + 4 gradient + 4 m + 4 v.
  CHECK(state("fp32", OptimizerKind::adam) == 16);
  // M2: 4 weight + 2 gradient + 2 m + 4 v.
  CHECK(state("lean", OptimizerKind::adam) == 12);
  // M3: 2 weight + 2 gradient + (4 master + 4 m + 4 v).
  CHECK(state("mixed", OptimizerKind::adam) == 16);
  CHECK(state("megatron", OptimizerKind::adam) == 18);
  CHECK(state("fsdp2", OptimizerKind::adam) == 16);
  CHECK(state("pure_bf16", OptimizerKind::adam) == 8);
  CHECK(state("fp64", OptimizerKind::adam) == 32);
}

TEST_CASE("optimizers hold the f32 state of the founding facts") {
  const auto slots = [](OptimizerKind kind) { return state("fp32", kind) - 8; };
  CHECK(slots(OptimizerKind::sgd) == 0);
  CHECK(slots(OptimizerKind::momentum) == 4);
  CHECK(slots(OptimizerKind::adagrad) == 4);
  CHECK(slots(OptimizerKind::rmsprop) == 4);
  CHECK(slots(OptimizerKind::adadelta) == 8);
  CHECK(slots(OptimizerKind::adam) == 8);
  CHECK(slots(OptimizerKind::adamw) == 8);
  CHECK(slots(OptimizerKind::amsgrad) == 12);
  // Two moments of one byte, and a 4-byte scale per 256 elements of each.
  CHECK(slots(OptimizerKind::adam8bit) == 2 * (1 + 4.0 / 256));
}

TEST_CASE("v-like slots take the second moment's type") {
  // lean: m bf16, v f32. Adadelta has two v-like slots, momentum one m-like.
  CHECK(state("lean", OptimizerKind::adadelta) == 4 + 2 + 4 + 4);
  CHECK(state("lean", OptimizerKind::momentum) == 4 + 2 + 2);
}

TEST_CASE("only the mixed recipe takes the job's 16-bit type") {
  const Recipe mixed = *resolve_recipe("mixed", core::DType::f16);
  CHECK(mixed.weight == core::DType::f16);
  CHECK(mixed.compute == core::DType::f16);
  CHECK(mixed.gradient == core::DType::f16);
  CHECK(mixed.activation == core::DType::f16);
  CHECK(mixed.master == core::DType::f32);
  CHECK(recipe_accepts("mixed", core::DType::f16));
  CHECK(recipe_accepts("fsdp2", core::DType::f16));  // MixedPrecisionPolicy(param_dtype=float16)
  CHECK_FALSE(recipe_accepts("pure_bf16", core::DType::f16));
  CHECK(recipe_accepts("mixed", core::DType::f8));  // GEMMs alone; weights stay in 16 bits
  CHECK_FALSE(recipe_accepts("fp32", core::DType::f8));
  CHECK_FALSE(resolve_recipe("half"));
}

TEST_CASE("recipe and optimizer names are found again by name") {
  for (std::string_view name : recipe_names()) CHECK(resolve_recipe(name)->name == name);
  for (const Optimizer& o : optimizers()) CHECK(optimizer_from_name(o.name) == o.kind);
  CHECK_FALSE(optimizer_from_name("lion"));
}
