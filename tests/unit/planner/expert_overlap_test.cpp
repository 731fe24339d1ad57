// Exchanges of experts beside a neighbouring micro-batch.

#include <cmath>

#include "planner/strategy/problems.hpp"

#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using namespace planner_test;

namespace {

// Of a step, those of rows with experts.
double exchange_seconds(const Candidate& c) {
  for (const CommunicationEntry& e : c.communication)
    if (e.what == "expert") return e.seconds.value();
  return 0.0;
}

}  // namespace

TEST_CASE("exchanges of experts beside a neighbouring micro-batch are exposed in part") {
  Request r = question("mixtral-8x7b", 64, "h200-sxm-141g");
  r.job.seq_len = 2048;
  r.job.global_batch = 256;
  const auto exchanged = [&](const char* overlap) {
    const Plan plan = pinned_plan(r, {"data=64", "tensor=1", "pipeline=1", "expert=8",
                                      "sharding=zero1", "micro_batch=1", "checkpoint=none",
                                      overlap});
    REQUIRE(plan.chosen);
    return *plan.chosen;
  };
  const Candidate alone = exchanged("expert_overlap=false");
  const Candidate beside = exchanged("expert_overlap=true");
  // Of 4 micro-batches a quarter has no neighbour; of the others' exchanges 0.3 stays.
  CHECK(std::abs(exchange_seconds(beside) / exchange_seconds(alone) - (0.25 + 0.75 * 0.3)) < 1e-6);
  CHECK(beside.time.step < alone.time.step);
}

TEST_CASE("tokens that travel once to each rank of their experts arrive sooner") {
  Request r = question("deepseek-v3", 256, "h800-sxm-80g");
  r.job.global_batch = 256;
  const auto exchanged = [&](const char* dispatch) {
    const Plan plan = pinned_plan(r, {"data=256", "tensor=1", "pipeline=1", "expert=64",
                                      "sharding=zero3", "micro_batch=1", "checkpoint=every_k(1)",
                                      dispatch});
    REQUIRE(plan.chosen);
    return exchange_seconds(*plan.chosen);
  };
  // 8 nodes of 8, which are the groups of experts: 8 copies of a token, 7 of them to other nodes;
  // or once to each of 4 nodes, 3.5 of them others, but those (9 %) none of whose 32 experts are
  // among the 8 chosen of 128. Starting a message costs little: all_to_all has 63, deepep few.
  const double once = exchanged("expert_dispatch=deepep");
  const double share = once / exchanged("expert_dispatch=all_to_all");
  CHECK(share < 0.91 * 3.5 / 7);
  CHECK(share > 0.9 * 0.91 * 3.5 / 7);
}

TEST_CASE("stages are divided by the exchanges that nothing hides") {
  // Before that, a stage of dense layers was thought to be as short as mixtures are with all of
  // their exchanges, and the step took 17 % longer than with layers divided evenly.
  Request r = question("deepseek-v3", 2048, "b200-sxm-180g");
  r.job.global_batch = 16384;
  const auto step = [&](const char* stages) {
    const Plan plan = pinned_plan(
        r, {"pipeline=16", "expert=64", "sharding=zero1", "tensor=1", "micro_batch=1",
            "schedule=dualpipe_v", "checkpoint=pointwise", "expert_overlap=true", stages});
    REQUIRE(plan.chosen);
    return plan.chosen->time.step.value();
  };
  CHECK(step("stages=auto") < 1.08 * step("stages=1,2*30,0"));
}

TEST_CASE("experts that nobody divides, and recomputed layers, leave nothing to exchange beside") {
  const Request r = question("mixtral-8x7b", 64, "h200-sxm-141g");
  const auto refused = [&](auto&& change) {
    Strategy s;
    s.data = s.shard_group = 64;
    s.sharding = Sharding::zero1;
    s.expert = 8;
    s.expert_overlap = true;
    change(s);
    for (const core::Problem& p : strategy_problems(r.model, r.job, s, r.gpus))
      if (p.where == "expert_overlap") return true;
    return false;
  };
  CHECK_FALSE(refused([](Strategy&) {}));
  CHECK(refused([](Strategy& s) { s.expert = 1; }));
  CHECK(refused([](Strategy& s) { s.checkpoint = Checkpoint::every_k; }));
  CHECK(refused([](Strategy& s) { s.pipeline = 2, s.data = s.shard_group = 32; }));
  CHECK_FALSE(refused([](Strategy& s) {  // pairs of its two chunks
    s.pipeline = s.virtual_stages = 2, s.data = s.shard_group = 32;
    s.schedule = Schedule::dualpipe_v;
  }));
}
