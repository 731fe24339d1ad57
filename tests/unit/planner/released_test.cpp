// What a user's own configuration could become, held against searches without those pins.
#include "planner/search/released.hpp"

#include <algorithm>

#include "planner/search/preference.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using planner_test::question;

namespace {

Request pinned(std::vector<std::string> pins) {
  Request r = question("gpt2-774m", 4, "rtx3090");
  r.job.global_batch = 32;
  for (const std::string& pin : pins) REQUIRE(r.constraints.pin(pin).ok());
  r.top = 0;
  r.brief = true;
  r.fewer = false;
  return r;
}

using Keys = std::vector<std::string>;

const Released* find(const std::vector<Released>& all, const Keys& keys) {
  const auto found = std::ranges::find(all, keys, &Released::keys);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("without pins nothing is left out") {
  const Request r = pinned({});
  CHECK(released_by(r, make_plan(r).value()).empty());
}

TEST_CASE("each change is the best plan under the pins that stay") {
  const Keys pins{"data=4",        "tensor=1",      "pipeline=1",   "sharding=zero3",
                  "micro_batch=1", "grad_accum=8", "checkpoint=every_k(1)"};
  const Request mine = pinned(pins);
  const Plan plan = make_plan(mine).value();
  REQUIRE(plan.chosen);
  const std::vector<Released> all = released_by(mine, plan);
  struct Case {
    Keys left_out, kept;
  };
  const std::vector<Case> cases{
      {{"micro_batch", "grad_accum"},
       {"data=4", "tensor=1", "pipeline=1", "sharding=zero3", "checkpoint=every_k(1)"}},
      {{"checkpoint", "checkpoint_every"},
       {"data=4", "tensor=1", "pipeline=1", "sharding=zero3", "micro_batch=1", "grad_accum=8"}},
      {{"sharding"},
       {"data=4", "tensor=1", "pipeline=1", "micro_batch=1", "grad_accum=8",
        "checkpoint=every_k(1)"}},
      {{"data", "tensor", "pipeline", "micro_batch", "grad_accum"},
       {"sharding=zero3", "checkpoint=every_k(1)"}},
      {{"sharding", "micro_batch", "grad_accum", "checkpoint", "checkpoint_every"},
       {"data=4", "tensor=1", "pipeline=1"}},
      {{"data", "tensor", "pipeline", "sharding", "micro_batch", "grad_accum", "checkpoint",
        "checkpoint_every"},
       {}}};
  CHECK(all.size() == cases.size());
  for (const Case& c : cases) {
    INFO("first key left out: " << c.left_out.front() << " of " << c.left_out.size());
    const Released* r = find(all, c.left_out);
    REQUIRE(r != nullptr);
    const Plan by_hand = make_plan(pinned(c.kept)).value();
    REQUIRE(r->best.has_value() == by_hand.chosen.has_value());
    CHECK(*r->best == by_hand.chosen->strategy);
    CHECK(r->step == by_hand.chosen->time.step);
    CHECK(r->device == by_hand.chosen->memory.worst.device);
    CHECK(r->helps ==
          (rank_of(plan.job, *by_hand.chosen, mine) < rank_of(plan.job, *plan.chosen, mine)));
  }
  CHECK(all.front().helps);  // computing every layer twice on cards that hold all of it
  CHECK(all[all.size() - 2].scope == Released::Scope::all_but_degrees);
  CHECK(all.back().scope == Released::Scope::all);
}

TEST_CASE("what a question recommends is not bettered by leaving its own answer's pins out") {
  const Plan free = make_plan(pinned({})).value();
  REQUIRE(free.chosen);
  Keys pins;
  for (const StrategyKey& key : strategy_keys())
    if (!key.is_list())
      pins.push_back(std::string(key.name) + '=' + value_text(key, free.chosen->strategy));
  const Request mine = pinned(pins);
  const Plan plan = make_plan(mine).value();
  REQUIRE(plan.chosen);
  CHECK(plan.chosen->strategy == free.chosen->strategy);
  for (const Released& r : released_by(mine, plan))
    if (r.helps) CHECK(r.step >= plan.chosen->time.step / 1.02);  // a simpler one may have won
}

TEST_CASE("where the pins fit nowhere, what fits without some of them is told") {
  const Request mine = pinned({"data=4", "sharding=none", "micro_batch=8", "checkpoint=none",
                               "loss_chunks=1", "offload=none"});
  const Plan plan = make_plan(mine).value();
  REQUIRE_FALSE(plan.chosen);
  const std::vector<Released> all = released_by(mine, plan);
  CHECK(std::ranges::any_of(all, [](const Released& r) { return r.best && r.helps; }));
  for (const Released& r : all) CHECK(r.helps == r.best.has_value());
}

TEST_CASE("leaving out more pins is never worse, hosts' memory included") {
  Request r = question("llama3-8b", 8, "rtx4090");
  r.job.mode = Mode::finetune;
  r.top = 0;
  for (const char* pin : {"data=8", "sharding=zero3", "offload=optimizer", "checkpoint=every_k(1)",
                          "micro_batch=1"})
    REQUIRE(r.constraints.pin(pin).ok());
  const Plan plan = make_plan(r).value();
  REQUIRE(plan.chosen);
  const std::vector<Released> all = released_by(r, plan);
  const auto scope = [&](Released::Scope s) {
    return *std::ranges::find(all, s, &Released::scope);
  };
  const Released one = scope(Released::Scope::one), some = scope(Released::Scope::all_but_degrees),
                 every = scope(Released::Scope::all);
  REQUIRE((one.best && some.best && every.best));
  CHECK(one.step < plan.chosen->time.step);
  CHECK(some.step <= one.step);
  CHECK(every.step <= some.step * 1.02);  // a simpler one may be chosen
}
