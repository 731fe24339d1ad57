#include "reports/released_text.hpp"

#include "reports/sensitivity.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using core::Seconds;
using planner::Checkpoint;
using planner::Plan;
using planner::Released;
using planner::Strategy;
using reports::changed_keys;
using reports::is_own_configuration;
using reports::released_lines;

namespace {

Released change(Released::Scope scope, Strategy strategy, double step) {
  Released r;
  r.scope = scope;
  r.keys = {"checkpoint"};
  r.helps = true;
  r.best = std::move(strategy);
  r.step = Seconds(step);
  r.device = core::gib(20);
  r.out_of_memory = 0.01;
  return r;
}

// A plan of 1.5 s a step.
Plan own_plan() {
  Plan plan = reports_test::sample_plan();
  plan.chosen->strategy.checkpoint = Checkpoint::every_k;
  plan.chosen->strategy.checkpoint_every = 1;
  return plan;
}

}  // namespace

TEST_CASE("without pins nothing is said of pins") {
  CHECK(released_lines(reports_test::sample_plan()).empty());
  CHECK_FALSE(is_own_configuration(reports_test::sample_plan()));
}

TEST_CASE("a change that helps is told with its gain, and the same found twice once") {
  Plan plan = own_plan();
  Strategy none = plan.chosen->strategy;
  none.checkpoint = Checkpoint::none;
  none.checkpoint_every = 0;
  Strategy wide = none;
  wide.data = 8;
  wide.tensor = 1;
  wide.shard_group = 8;
  plan.released = {change(Released::Scope::one, none, 1.2),
                   change(Released::Scope::one, wide, 1.3),
                   change(Released::Scope::all_but_degrees, none, 1.2),
                   change(Released::Scope::all, wide, 0.75)};
  CHECK_FALSE(is_own_configuration(plan));
  plan.released.back().keys = {"data", "sharding", "checkpoint"};
  CHECK_FALSE(is_own_configuration(plan));
  plan.released.back().keys.push_back("micro_batch");
  CHECK(is_own_configuration(plan));
  const std::vector<std::string> lines = released_lines(plan);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "The best single change is checkpoint=none: 20.0 % faster (1.20 s a step, 20.0 "
                    "GiB per GPU, 1.0 % risk of running out of memory).");
  CHECK(lines[1] == "With nothing pinned, the best is data=8 tensor=1 checkpoint=none: 50.0 % "
                    "faster (750 ms a step, 20.0 GiB per GPU, 1.0 % risk of running out of "
                    "memory).");
}

TEST_CASE("a gain that a prediction cannot be sure of is said to be one") {
  Plan plan = own_plan();
  Strategy other = plan.chosen->strategy;
  other.micro_batch = 4;
  plan.released = {change(Released::Scope::one, other, 1.49)};
  const std::vector<std::string> lines = released_lines(plan);
  REQUIRE(lines.size() == 1);
  CHECK(reports_test::has(lines[0], "a short run of both can tell"));
}

TEST_CASE("where no change helps, that is said, and where nothing fits, what would") {
  Plan plan = own_plan();
  plan.released = {change(Released::Scope::one, plan.chosen->strategy, 1.6)};
  plan.released[0].helps = false;
  CHECK(released_lines(plan) ==
        std::vector<std::string>{"Nothing that the pins exclude is preferred to it."});
  plan.released[0].helps = true;
  plan.chosen.reset();
  REQUIRE(released_lines(plan).size() == 1);
  CHECK(reports_test::has(released_lines(plan)[0], "it fits: 1.60 s a step"));
}

TEST_CASE("a change of recomputation is told with its k, and a group that is all ranks is not") {
  const Strategy from = own_plan().chosen->strategy;
  Strategy to = from;
  to.checkpoint_every = 2;
  to.data = 8;
  to.shard_group = 8;
  CHECK(changed_keys(from, to) == "data=8 checkpoint=every_k(2)");
  to.shard_group = 2;
  CHECK(changed_keys(from, to) == "data=8 shard_group=2 checkpoint=every_k(2)");
}
