// Every key of a strategy, with every kind of value it can have: a pin is honoured by what is
// chosen, a forbidden value is not chosen, and a refusal names the key.

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/keys.hpp"
#include "reports/plan_text.hpp"
#include "tests/catch.hpp"

namespace {

using planner::KeyKind;
using planner::StrategyKey;

std::vector<std::string> values_of(const StrategyKey& key) {
  switch (key.kind) {
    case KeyKind::count: return {"0", "1", "2", "3", "4", "8"};
    case KeyKind::bytes: return {"1MiB", "25MiB"};
    case KeyKind::boolean: return {"true", "false"};
    case KeyKind::numbers: return {"auto", "12", "6,6", "3,9", "3,3,3,3"};
    case KeyKind::annotations: return {"auto", "attn.qkv=out", "fc*=in,fc2=out"};
    case KeyKind::choice:
    case KeyKind::words: break;
  }
  return {key.choices.begin(), key.choices.end()};
}

planner::Request question() {
  planner::Request request;
  request.model = models::find_model("gpt2-124m").value();
  request.gpus = 4;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  request.job.seq_len = 64;
  request.job.global_batch = 8;
  request.top = 1;
  return request;
}

// What the command line would say: the answer, or why there is none.
struct Answer {
  std::optional<planner::Strategy> chosen;
  std::string reason;
};

Answer ask(const planner::Request& request) {
  const auto plan = planner::make_plan(request);
  if (!plan.ok()) return {std::nullopt, core::to_text(plan.problems())};
  if (!plan->chosen) return {std::nullopt, reports::why_infeasible(*plan)};
  return {plan->chosen->strategy, ""};
}

bool names(const std::string& reason, const StrategyKey& key, const std::string& value) {
  return reason.find(key.name) != std::string::npos ||
         (key.kind == KeyKind::choice && reason.find(value) != std::string::npos);
}

}  // namespace

TEST_CASE("a pin of any key is honoured, or refused by its name") {
  for (const StrategyKey& key : planner::strategy_keys())
    for (const std::string& value : values_of(key)) {
      planner::Request request = question();
      const std::string pin = std::string(key.name) + '=' + value;
      INFO(pin);
      const core::Status pinned = request.constraints.pin(pin);
      if (!pinned.ok()) {
        CHECK(names(core::to_text(pinned.problems()), key, value));
        continue;
      }
      const Answer answer = ask(request);
      INFO(answer.reason);
      if (!answer.chosen)
        CHECK(names(answer.reason, key, value));
      else if (value != "auto")  // a choice left to the planner
        CHECK(request.constraints.admits(*answer.chosen));
    }
}

TEST_CASE("a forbidden value of any key is not chosen, or the refusal names the key") {
  const Answer free = ask(question());
  REQUIRE(free.chosen);
  for (const StrategyKey& key : planner::strategy_keys()) {
    const std::string value = planner::value_text(key, *free.chosen);
    planner::Request request = question();
    const std::string forbidden = std::string(key.name) + '=' + value;
    INFO(forbidden);
    const core::Status done = request.constraints.forbid(forbidden);
    if (!done.ok()) {
      CHECK(names(core::to_text(done.problems()), key, value));
      continue;
    }
    const Answer answer = ask(request);
    INFO(answer.reason);
    if (answer.chosen)
      CHECK(planner::value_text(key, *answer.chosen) != value);
    else
      CHECK(names(answer.reason, key, value));
  }
}

TEST_CASE("no plan: the nearest miss and what would make it fit are in the plan") {
  planner::Request big = question();
  big.model = models::find_model("gpt3-175b").value();
  big.gpus = 1;
  big.job.seq_len = 0;
  planner::Request odd = question();
  REQUIRE(odd.constraints.pin("data=3").ok());
  planner::Request forced = question();
  forced.model = models::find_model("gpt2-1.5b").value();
  forced.job.seq_len = 1024;
  forced.profile = hw_profiles::find_profile("rtx3090").value();
  REQUIRE(forced.constraints.pin("data=4").ok());
  REQUIRE(forced.constraints.pin("sharding=none").ok());
  REQUIRE(forced.constraints.pin("offload=none").ok());
  for (const planner::Request& request : {big, odd, forced}) {
    const planner::Plan plan = planner::make_plan(request).value();
    CHECK_FALSE(plan.chosen);
    REQUIRE_FALSE(plan.rejected.empty());
    CHECK_FALSE(plan.rejected.front().limit.empty());
    CHECK_FALSE(plan.rejected.front().fix.empty());
    CHECK(reports::why_infeasible(plan).find(plan.rejected.front().fix) != std::string::npos);
  }
}
