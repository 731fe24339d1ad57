// What --allow-stale adds to the space.
#include "planner/search/stale_space.hpp"

#include <algorithm>

#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using planner_test::pinned_plan;
using planner_test::question;

namespace {

std::vector<Structure> stale_of(const Constraints& constraints) {
  Job job;
  job.seq_len = 1024;
  job.global_batch = 64;
  return stale_structures(job, {.gpus = 16, .gpus_per_node = 4, .layers = 24}, constraints);
}

bool any(const std::vector<Structure>& all, auto&& holds) {
  return std::ranges::any_of(all, [&](const Structure& one) { return holds(one.strategy); });
}

}  // namespace

TEST_CASE("pipelines without flush are searched beside tensor ranks, zero1 and recomputation") {
  const std::vector<Structure> all = stale_of({});
  for (const Schedule schedule : {Schedule::pipedream, Schedule::pipedream_2bw}) {
    const auto has = [&](auto&& holds) {
      return any(all, [&](const Strategy& s) { return s.schedule == schedule && holds(s); });
    };
    CHECK(has([](const Strategy& s) { return s.tensor == 4 && s.pipeline == 4; }));
    CHECK(has([](const Strategy& s) { return s.tensor == 2 && s.sequence_parallel; }));
    CHECK(has([](const Strategy& s) { return s.sharding == Sharding::zero1 && s.data == 8; }));
    CHECK(has([](const Strategy& s) { return s.pipeline == 16; }));
    for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::every_k,
                                        Checkpoint::selective, Checkpoint::pointwise})
      CHECK(has([&](const Strategy& s) { return s.checkpoint == checkpoint; }));
  }
  for (const Structure& one : all) {
    const Strategy& s = one.strategy;
    if (s.grad_sync == GradSync::parameter_server) continue;
    CHECK(s.tensor <= 4);              // within a node
    CHECK(s.sharding <= Sharding::zero1);
    CHECK(s.context == 1);
    CHECK(s.checkpoint_every <= 1);
    CHECK_FALSE(one.micro_batches.empty());
    for (const std::int64_t size : one.micro_batches)
      CHECK(schedule_takes(s.schedule, s.pipeline, with_micro_batch(s, size, 64).grad_accum));
  }
}

TEST_CASE("what is pinned or forbidden holds of stale structures, too") {
  Constraints constraints;
  REQUIRE(constraints.pin("sharding=zero1").ok());
  REQUIRE(constraints.pin("tensor=2").ok());
  REQUIRE(constraints.pin("checkpoint_every=0|3").ok());
  REQUIRE(constraints.forbid("schedule=pipedream").ok());
  REQUIRE(constraints.forbid("checkpoint=selective").ok());
  const std::vector<Structure> all = stale_of(constraints);
  REQUIRE_FALSE(all.empty());
  for (const Structure& one : all) {
    const Strategy& s = one.strategy;
    CHECK(s.schedule == Schedule::pipedream_2bw);  // servers go without sharding
    CHECK(s.sharding == Sharding::zero1);
    CHECK(s.tensor == 2);
    CHECK(s.checkpoint != Checkpoint::selective);
    CHECK((s.checkpoint_every == 0 || s.checkpoint_every == 3));
  }
  CHECK(any(all, [](const Strategy& s) { return s.checkpoint_every == 3; }));
  // The space itself has a pinned schedule.
  Constraints flushed;
  REQUIRE(flushed.pin("schedule=1f1b").ok());
  CHECK_FALSE(any(stale_of(flushed), [](const Strategy& s) { return !flushes(s.schedule); }));
}

TEST_CASE("a pipeline without flush that divides its optimizer is faster and smaller") {
  Request r = question("llama2-7b", 8, "h100-sxm-80g");
  r.job.global_batch = 8;
  r.gpus_per_node = 2;
  r.internode_bandwidth = core::BytesPerSecond(1.25e9);
  r.simpler_within = 0;
  const Plan fresh = pinned_plan(r);
  r.stale = true;
  const Plan wide = pinned_plan(r);
  Request whole = r;
  REQUIRE(whole.constraints.forbid("sharding=zero1").ok());
  const Plan narrow = pinned_plan(std::move(whole));
  REQUIRE((fresh.chosen && wide.chosen && narrow.chosen));
  CHECK(flushes(fresh.chosen->strategy.schedule));
  CHECK_FALSE(flushes(narrow.chosen->strategy.schedule));
  CHECK_FALSE(flushes(wide.chosen->strategy.schedule));
  CHECK(wide.chosen->strategy.sharding == Sharding::zero1);
  CHECK(wide.chosen->time.step < narrow.chosen->time.step);
  CHECK(wide.chosen->memory.worst.device < narrow.chosen->memory.worst.device);
}
