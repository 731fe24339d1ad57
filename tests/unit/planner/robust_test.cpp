// Steps that vary at random (planner/evaluate/variation.hpp), and plans ranked by them.
#include "planner/search/robust.hpp"

#include <set>

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/simulate.hpp"
#include "planner/search/search.hpp"
#include "planner/stage/graph_options.hpp"
#include "tests/catch.hpp"

using core::Seconds;
using planner::RandomSlow;
using planner::Variation;
using planner::VariationOptions;

namespace {

planner::Request robust_request(std::int64_t gpus = 16) {
  planner::Request request;
  request.model = models::find_model("gpt2-124m").value();
  request.gpus = gpus;
  request.profile = hw_profiles::find_profile("a100-sxm-80g").value();
  request.job.seq_len = 256;
  request.job.global_batch = 64;
  return request;
}

struct Played {
  planner::Plan plan;
  program::Program program;
  cost::Machine machine;
};

Played robust_program(std::vector<const char*> pins, std::int64_t gpus = 16) {
  planner::Request request = robust_request(gpus);
  for (const char* pin : pins) REQUIRE(request.constraints.pin(pin).ok());
  planner::Plan plan = planner::make_plan(request).value();
  REQUIRE(plan.chosen);
  const planner::Strategy& s = plan.chosen->strategy;
  const auto graph = models::build_graph(
      plan.model, planner::graph_options(plan.job, s, plan.profile.framework));
  REQUIRE(graph.ok());
  program::Program program =
      planner::lower(*graph, plan.job, s,
                     planner::stage::policy_of(plan.job, plan.profile.framework));
  const cost::Machine machine = planner::machine_for(plan.profile, plan.job, plan.model);
  return {std::move(plan), std::move(program), machine};
}

}  // namespace

TEST_CASE("a quantile is the least value that so many of the values do not exceed") {
  std::vector<Seconds> values;
  for (int i = 200; i >= 1; --i) values.emplace_back(i);
  CHECK(planner::quantile(values, 0.95).value() == 190);
  CHECK(planner::quantile(values, 0.951).value() == 191);
  CHECK(planner::quantile(values, 0.5).value() == 100);
  CHECK(planner::quantile(values, 1).value() == 200);
  CHECK(planner::quantile(values, 0.001).value() == 1);
  CHECK(planner::quantile({Seconds(7)}, 0.95).value() == 7);
}

TEST_CASE("ranks are slow as often as asked, for as long as asked, and the same for a seed") {
  VariationOptions o;
  o.random = {{0.01, 1.2, 1, 1}, {0.002, 1, 0.5, 20}};
  o.steps = 500;
  const auto drawn = planner::drawn_conditions(64, o);
  double slow = 0, weak = 0;
  for (const auto& step : drawn) {
    std::set<int> ranks;
    for (const engine::Straggler& s : step) {
      CHECK(ranks.insert(s.rank).second);
      slow += s.slowdown > 1;
      weak += s.link_share < 1;
    }
  }
  // 64 x 500 draws: one percent of them, and 1 - 0.998^20 = 3.92 %.
  CHECK(slow / 32'000 == Approx(0.01).epsilon(0.2));
  CHECK(weak / 32'000 == Approx(0.0392).epsilon(0.2));
  // A link that flaps stays so: most of its steps have it in the next one, too.
  int again = 0, all = 0;
  for (std::size_t i = 0; i + 1 < drawn.size(); ++i)
    for (const engine::Straggler& s : drawn[i]) {
      if (s.link_share == 1) continue;
      ++all;
      for (const engine::Straggler& t : drawn[i + 1])
        again += t.rank == s.rank && t.link_share < 1;
    }
  CHECK(static_cast<double>(again) / all > 0.9);
  // A longer run has the same first steps; another seed has not.
  o.steps = 600;
  const auto longer = planner::drawn_conditions(64, o);
  for (std::size_t i = 0; i < drawn.size(); ++i) REQUIRE(longer[i].size() == drawn[i].size());
  o.seed = 2;
  const auto other = planner::drawn_conditions(64, o);
  bool differs = false;
  for (std::size_t i = 0; i < drawn.size(); ++i) differs |= other[i].size() != drawn[i].size();
  CHECK(differs);
}

TEST_CASE("kinds that meet in a rank multiply its slowdown and keep the weaker link") {
  VariationOptions o;
  o.random = {{1, 1.5, 0.5, 1}, {1, 2, 0.25, 3}};
  o.fixed = {{1, 3}};
  o.steps = 2;
  for (const auto& step : planner::drawn_conditions(2, o)) {
    REQUIRE(step.size() == 2);
    CHECK(step[0].slowdown == 3);
    CHECK(step[0].link_share == 0.25);
    CHECK(step[1].slowdown == 9);
  }
}

TEST_CASE("varied steps are what each of them is by itself, on any number of threads") {
  const std::vector<const char*> pins =
      GENERATE(std::vector<const char*>{"data=16", "sharding=zero1"},
               std::vector<const char*>{"pipeline=4", "tensor=2", "data=2"},
               std::vector<const char*>{"pipeline=2", "schedule=pipedream_2bw", "data=8"});
  const Played p = robust_program(pins);
  VariationOptions o;
  o.random = {{0.02, 1.3, 1, 1}, {0.02, 1, 0.3, 2}};
  o.steps = 24;
  o.threads = 1;
  const Variation one = planner::varied_steps(p.program, p.machine, o);
  o.threads = 4;
  const Variation four = planner::varied_steps(p.program, p.machine, o);
  REQUIRE(one.steps.size() == 24);
  CHECK(one.steps == four.steps);
  CHECK(one.slowed > 0);
  const Seconds healthy = planner::step_with(p.program, p.machine, {});
  const auto drawn = planner::drawn_conditions(16, o);
  std::int64_t slowed = 0;
  double sum = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    CHECK(one.steps[i] == planner::step_with(p.program, p.machine, drawn[i]));
    CHECK(one.steps[i] >= healthy);
    if (drawn[i].empty()) CHECK(one.steps[i] == healthy);
    slowed += drawn[i].empty() ? 0 : 1;
    sum += one.steps[i].value();
  }
  CHECK(one.slowed == slowed);
  CHECK(one.mean.value() == Approx(sum / 24));
  CHECK(one.least >= healthy);
  // One slow rank where it hurts most is as bad as that rank anywhere.
  const Seconds worst = planner::worst_step_with_one(p.program, p.machine, 1.3, 1, 2);
  for (int rank = 0; rank < 16; ++rank)
    CHECK(planner::step_with(p.program, p.machine, {{rank, 1.3}}) <= worst);
}

TEST_CASE("a job whose every rank waits for all others is as slow as its slowest rank") {
  // Data ranks alone, each with the same work: a rank 1.5 times slower computes 1.5 times as long.
  const Played p = robust_program({"data=16", "sharding=none", "grad_accum=4"});
  const double healthy = planner::step_with(p.program, p.machine, {}).value();
  const double slow = planner::step_with(p.program, p.machine, {{5, 1.5}}).value();
  CHECK(slow / healthy <= 1.5);
  CHECK(slow / healthy > 1.3);
  const double two = planner::step_with(p.program, p.machine, {{5, 1.5}, {9, 1.5}}).value();
  CHECK(two == slow);
}

TEST_CASE("without --robust a plan says nothing of it; with it the file comes back as it was") {
  planner::Request request = robust_request();
  planner::Plan plain = planner::make_plan(request).value();
  CHECK(!plain.robust);
  CHECK(planner::to_json_text(plain).find("robust") == std::string::npos);
  request.robust = planner::RobustOptions{{{0.02, 1.5, 1, 1}, {0.01, 1, 0.25, 1}}, 0.9, 50, 7};
  request.threads = 1;
  planner::Plan one = planner::make_plan(request).value();
  request.threads = 4;
  planner::Plan four = planner::make_plan(request).value();
  one.search.seconds = four.search.seconds = Seconds(0);
  const std::string text = planner::to_json_text(one);
  CHECK(text == planner::to_json_text(four));
  const planner::Plan again = planner::parse_plan(text, "plan.json").value();
  CHECK(planner::to_json_text(again) == text);
  REQUIRE(again.robust);
  CHECK(again.robust->steps.size() == 1 + again.alternatives.size());
  // A quantile that is left out, or of another number of candidates.
  std::string damaged = text;
  damaged.replace(damaged.find("\"quantile\""), 10, "\"quantiles\"");
  CHECK(!planner::parse_plan(damaged, "plan.json").ok());
}

TEST_CASE("finalists are ranked by the quantile of their steps with slow ranks") {
  planner::Request request = robust_request();
  request.simpler_within = 0;
  request.robust = planner::RobustOptions{{{0.05, 1.5, 1, 1}}, 0.95, 60, 1};
  const planner::Plan plan = planner::make_plan(request).value();
  REQUIRE(plan.chosen);
  REQUIRE(plan.robust);
  const auto& steps = plan.robust->steps;
  REQUIRE(steps.size() > 1);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const planner::Candidate& c = i == 0 ? *plan.chosen : plan.alternatives[i - 1];
    CHECK(steps[i].scenarios == 60);
    CHECK(steps[i].step >= c.time.step);
    CHECK(steps[i].mean >= c.time.step);
    REQUIRE(steps[i].one_slow.size() == 1);
    CHECK(steps[i].one_slow[0].growth > 0);
    CHECK(steps[i].one_slow[0].growth <= 0.5 + 1e-9);
    if (i > 0 && c.strategy.pipeline == plan.chosen->strategy.pipeline)
      CHECK(steps[i].step.value() >= 0.999 * steps[0].step.value());
  }
}
