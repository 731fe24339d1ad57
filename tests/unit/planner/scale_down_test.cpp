// A job scaled down keeps its strategy: its degrees, what it communicates and how.
#include "planner/plan/scale_down.hpp"

#include <set>

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/keys.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {

Plan planned(const char* model, std::int64_t gpus, const std::vector<std::string>& pins) {
  Request request;
  request.model = models::find_model(model).value();
  request.gpus = gpus;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  for (const std::string& pin : pins) {
    const core::Status pinned = request.constraints.pin(pin);
    REQUIRE(pinned.ok());
  }
  const core::Result<Plan> plan = make_plan(request);
  REQUIRE(plan.ok());
  REQUIRE(plan->chosen);
  return *plan;
}

// "gradients reduce_scatter ring 8", of every entry.
std::set<std::string> communicated(const Candidate& c) {
  std::set<std::string> all;
  for (const CommunicationEntry& e : c.communication)
    all.insert(e.what + ' ' + e.collective + ' ' + e.algorithm + ' ' +
               std::to_string(e.group_size));
  return all;
}

// Every key of the strategy but the batch's and the layers of its stages.
std::string kept(const Strategy& strategy) {
  std::string text;
  for (const StrategyKey& key : strategy_keys())
    if (key.name != "micro_batch" && key.name != "grad_accum" && key.name != "stages")
      text += std::string(key.name) + '=' + value_text(key, strategy) + ' ';
  return text;
}

void check_scaled(const Plan& plan) {
  const core::Result<ScaledPlan> scaled = scale_down(plan, *plan.chosen);
  REQUIRE(scaled.ok());
  REQUIRE(scaled->plan.chosen);
  const Candidate& small = *scaled->plan.chosen;
  INFO(to_text(scaled->figures));
  CHECK_FALSE(scaled->figures.empty());
  CHECK(kept(small.strategy) == kept(plan.chosen->strategy));
  CHECK(communicated(small) == communicated(*plan.chosen));
  CHECK(small.memory.worst.live * plan.gpus <= kScaledBytes);
  CHECK(strategy_problems(scaled->plan.model, scaled->plan.job, small.strategy, plan.gpus).empty());
  for (const ScaledFigure& f : scaled->figures) CHECK(f.run < f.planned);
  if (plan.chosen->strategy.pipeline > 1)  // still fills its pipeline, if it did
    CHECK(small.strategy.grad_accum >=
          std::min(plan.chosen->strategy.grad_accum, 2 * small.strategy.pipeline));
}

}  // namespace

TEST_CASE("a job scaled down keeps its strategy, what it communicates and its micro-batches") {
  check_scaled(planned("gpt2-1.5b", 8, {"data=8", "sharding=zero1"}));
  check_scaled(planned("gpt2-1.5b", 8, {"data=8", "sharding=zero3", "checkpoint=every_k",
                                        "checkpoint_every=2"}));
  check_scaled(planned("gpt2-774m", 8, {"data=2", "tensor=2", "pipeline=2", "schedule=1f1b",
                                        "sequence_parallel=true"}));
  check_scaled(planned("llama3-8b", 8, {"pipeline=4", "virtual_stages=2",
                                        "schedule=interleaved", "data=2", "sharding=zero1"}));
  check_scaled(planned("llama3-8b", 8, {"context=2", "tensor=4", "context_method=ring"}));
  check_scaled(planned("mixtral-8x7b", 16, {"data=16", "expert=8", "sharding=zero3"}));
  check_scaled(planned("llama3-70b", 64, {}));
}

TEST_CASE("a job that is small already is not scaled down, and its plan is the same") {
  const Plan plan = planned("mlp-mnist", 2, {"data=2"});
  const core::Result<ScaledPlan> scaled = scale_down(plan, *plan.chosen);
  REQUIRE(scaled.ok());
  CHECK(scaled->figures.empty());
  CHECK(scaled->plan.job == plan.job);
  CHECK(scaled->plan.model == plan.model);
}

TEST_CASE("what was made smaller reads as a list") {
  CHECK(to_text(std::vector<ScaledFigure>{{"sequence length", 1024, 128}, {"layers", 48, 2}}) ==
        "sequence length 1024 -> 128, layers 48 -> 2");
}

TEST_CASE("scale_down: a job that the model does not have is refused") {
  Plan plan = planned("mlp-mnist", 2, {});
  plan.job.lora_rank = 8;
  const core::Result<ScaledPlan> scaled = scale_down(plan, *plan.chosen);
  REQUIRE_FALSE(scaled.ok());
  CHECK(scaled.problems().front().where == "lora_rank");
}

TEST_CASE("scale_down: a strategy that the job does not take is refused") {
  Plan plan = planned("alexnet", 4, {"split=2"});
  plan.chosen->strategy.split = 17;
  CHECK_FALSE(scale_down(plan, *plan.chosen).ok());
}
