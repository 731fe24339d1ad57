// What is searched where memory is short, whatever is pinned and on however many GPUs.
#include <fmt/format.h>

#include "planner/search/preference.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using planner_test::pinned_plan;
using planner_test::question;
using planner_test::use_framework;

TEST_CASE("a plan stays as it is when one of its own values is pinned") {
  Request r = GENERATE(question("llama3-8b", 1, "h100-sxm-80g"),
                       question("llama3-8b", 8, "rtx4090"),
                       question("llama3-70b", 8, "h100-sxm-80g"),
                       question("gpt2-1.5b", 8, "rtx3090"));
  r.brief = true;
  const Plan plan = pinned_plan(r);
  REQUIRE(plan.chosen);
  const Strategy& s = plan.chosen->strategy;
  for (const std::string& pin :
       {fmt::format("data={}", s.data), fmt::format("tensor={}", s.tensor),
        fmt::format("context={}", s.context), fmt::format("micro_batch={}", s.micro_batch),
        fmt::format("sharding={}", name(s.sharding)),
        fmt::format("checkpoint={}", name(s.checkpoint)),
        fmt::format("loss_chunks={}", s.loss_chunks)}) {
    INFO(plan.model.name << " on " << plan.gpus << " x " << plan.profile.gpu.id << ": " << pin);
    const Plan pinned = pinned_plan(r, {pin});
    REQUIRE(pinned.chosen);
    CHECK(to_text(pinned.chosen->strategy) == to_text(s));
  }
}

TEST_CASE("host memory is used on many GPUs where it gains more than it must") {
  Request r = question("llama3-70b", 128, "h100-sxm-80g");
  r.job.global_batch = 1536;
  r.brief = true;
  const Plan with = pinned_plan(r);
  r.hosts = false;
  const Plan without = pinned_plan(r);
  REQUIRE((with.chosen && without.chosen));
  INFO(to_text(with.chosen->strategy) << " / " << to_text(without.chosen->strategy));
  CHECK(with.chosen->strategy.offloads("optimizer"));
  CHECK(1.05 * with.chosen->time.step < without.chosen->time.step);
  CHECK(within_risk(*with.chosen, r.max_risk));
}

TEST_CASE("where replays refuse what bounds called safe, hosts are asked after all") {
  Request r = question("llama3-70b", 64, "h100-sxm-80g");
  use_framework(r, "deepspeed");
  r.brief = true;
  r.hosts = false;
  const Plan without = pinned_plan(r);
  REQUIRE(without.chosen);
  CHECK_FALSE(within_risk(*without.chosen, r.max_risk));
  r.hosts = true;
  const Plan with = pinned_plan(r);
  REQUIRE(with.chosen);
  INFO(to_text(with.chosen->strategy));
  CHECK(within_risk(*with.chosen, r.max_risk));
  CHECK(with.chosen->strategy.offload == std::vector<std::string>{"optimizer"});
}

TEST_CASE("a schedule of the same degrees that is simpler and about as fast is recommended") {
  Request r = question("llama3-70b", 64, "h100-sxm-80g");
  use_framework(r, "megatron_core");
  const Plan plan = pinned_plan(r);
  REQUIRE(plan.chosen);
  INFO(to_text(plan.chosen->strategy));
  CHECK(plan.chosen->strategy.schedule == Schedule::one_f_one_b);
  CHECK(plan.because == Because::simplest);
}

// A micro-batch that waits for long keeps its number where rounds are left out.
TEST_CASE("a V of many stages is replayed while what is there still changes from round to round") {
  Request r = question("llama3-70b", 256, "h200-sxm-141g");
  r.job.global_batch = 64;
  const Plan plan = pinned_plan(r, {"pipeline=32", "context=8", "schedule=zb_v",
                                    "virtual_stages=2", "micro_batch=1"});
  CHECK(plan.chosen);
}
