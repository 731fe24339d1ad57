#include "planner/plan/simulate.hpp"

#include <cmath>

#include "core/json.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search/search.hpp"
#include "tests/catch.hpp"

using planner::Simulation;

namespace {

planner::Plan simulated_plan(std::vector<const char*> pins, std::int64_t gpus = 8) {
  planner::Request request;
  request.model = models::find_model("gpt2-124m").value();
  request.gpus = gpus;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  request.job.seq_len = 256;
  request.job.global_batch = 32;
  for (const char* pin : pins) REQUIRE(request.constraints.pin(pin).ok());
  planner::Plan plan = planner::make_plan(request).value();
  REQUIRE(plan.chosen);
  return plan;
}

}  // namespace

TEST_CASE("the parts of a simulated step add up, and so does its critical path") {
  const std::vector<const char*> pins =
      GENERATE(std::vector<const char*>{}, std::vector<const char*>{"pipeline=4"},
               std::vector<const char*>{"pipeline=2", "schedule=zb_h1", "tensor=2"},
               std::vector<const char*>{"sharding=zero3", "grad_accum=2"});
  const planner::Plan plan = simulated_plan(pins);
  const Simulation s = planner::simulate(plan, {}).value();
  const planner::Time& t = s.time;
  const double sum = t.compute.value() + t.exposed_communication.value() + t.bubble.value() +
                     t.optimizer.value();
  CHECK(std::abs(sum - t.step.value()) < 1e-12);
  double path = 0;
  for (const planner::PathPart& part : s.critical_path) path += part.seconds.value();
  CHECK(std::abs(path - s.first_step.value()) < 1e-12);
  for (const planner::StreamUse& use : s.streams) CHECK(use.idle.value() >= 0);
  CHECK(s.ranks == 8);
  CHECK(s.peak.live == plan.chosen->memory.worst.live);
  CHECK(s.peak.time <= s.first_step);
}

TEST_CASE("unfolded, a step is the same; a straggler makes it longer") {
  const planner::Plan plan = simulated_plan({"pipeline=2", "schedule=1f1b"});
  const Simulation folded = planner::simulate(plan, {}).value();
  const Simulation each = planner::simulate(plan, {.unfold = true}).value();
  CHECK(folded.ranks_played == 2);
  CHECK(each.ranks_played == 8);
  CHECK(each.time.step == folded.time.step);
  CHECK(each.critical_path.size() == folded.critical_path.size());
  const Simulation slow = planner::simulate(plan, {.stragglers = {{5, 1.5}}}).value();
  CHECK(slow.time.step > folded.time.step);
  CHECK(slow.time.step.value() <= 1.5 * folded.time.step.value());
}

TEST_CASE("a slowed step is held against the healthy one, and the terms say what grew") {
  const planner::Plan plan = simulated_plan({"pipeline=2", "schedule=1f1b"});
  const Simulation plain = planner::simulate(plan, {}).value();
  CHECK(!plain.healthy);
  CHECK(core::parse_json(planner::to_json_text(plain), "s").value().find("healthy") == nullptr);
  planner::SimulateOptions weak;
  weak.flows.emplace();
  const core::Seconds shared = planner::simulate(plan, weak).value().time.step;
  weak.flows->weak.push_back({3, 0.01});
  const planner::SimulateOptions straggler{.stragglers = {{5, 1.5}}}, jitter{.jitter = 0.2};
  for (const auto& [options, healthy] : {std::pair{straggler, plain.time.step},
                                         std::pair{jitter, plain.time.step},
                                         std::pair{weak, shared}}) {
    const Simulation s = planner::simulate(plan, options).value();
    REQUIRE(s.healthy);
    CHECK(s.healthy->step == healthy);
    CHECK(s.time.step > healthy);
    const core::Json json = core::parse_json(planner::to_json_text(s), "s").value();
    CHECK(json.at("healthy").at("step").as_double() == healthy.value());
    CHECK(json.at("slowdown").as_double() == Approx(s.time.step / healthy - 1));
    double grown = 0;
    for (const core::Json::Member& term : json.at("growth").members())
      grown += term.value.as_double();
    CHECK(grown == Approx(s.time.step.value() - healthy.value()));
  }
}

TEST_CASE("a simulation is written with every field of its schema") {
  const Simulation s = planner::simulate(simulated_plan({"pipeline=2"}), {}).value();
  const core::Json json = core::parse_json(planner::to_json_text(s), "simulation").value();
  CHECK(json.at("schema").as_string() == "simulate/1");
  CHECK(json.at("evaluator").as_string() == "simulated");
  for (const char* key : {"candidate", "ranks", "time", "memory", "communication", "streams",
                          "critical_path"})
    CHECK(json.find(key) != nullptr);
}

TEST_CASE("what cannot be simulated is refused with a reason") {
  const planner::Plan plan = simulated_plan({});
  const auto refused = [&](const planner::SimulateOptions& o, const std::string& where) {
    const auto result = planner::simulate(plan, o);
    REQUIRE(!result.ok());
    CHECK(result.problems().front().where == where);
  };
  refused({.candidate = 99}, "--candidate");
  refused({.stragglers = {{8, 2.0}}}, "--straggler");
  planner::Plan damaged = plan;
  damaged.chosen->strategy.grad_accum = 1'000'000'000'000;
  CHECK(!planner::simulate(damaged, {}).ok());
}

TEST_CASE("C7: copies of a model scale near-linearly within a node, then synchronisation shows") {
  // The founding setting: fp32 gradients over PCIe through the host, nodes of eight.
  planner::Request request;
  request.model = models::find_model("gpt2-124m").value();
  request.gpus = 8;
  request.profile = hw_profiles::find_profile("rtx3090").value();
  request.job.seq_len = 1024;
  request.job.global_batch = 256;
  REQUIRE(request.constraints.pin("data=8").ok());
  REQUIRE(request.constraints.pin("sharding=none").ok());
  const planner::Plan plan = planner::make_plan(request).value();
  REQUIRE(plan.chosen);
  const Simulation s = planner::simulate(plan, {.scale = {1, 2, 4, 8, 16, 64}}).value();
  REQUIRE(s.scaling.size() == 6);
  CHECK(s.scaling[0].efficiency == 1);
  for (std::size_t i = 1; i < 6; ++i)
    CHECK(s.scaling[i].efficiency <= s.scaling[i - 1].efficiency + 1e-9);
  CHECK(s.scaling[3].gpus == 8);
  CHECK(s.scaling[3].efficiency > 0.85);
  CHECK(s.scaling[4].efficiency < s.scaling[3].efficiency - 0.03);  // two nodes
  CHECK(s.scaling[3].time.step == s.time.step);
}
