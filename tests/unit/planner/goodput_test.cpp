// Jobs with failures: from a plan to goodput (planner/plan/goodput.hpp).
#include "planner/plan/goodput.hpp"

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/simulate.hpp"
#include "planner/search/search.hpp"
#include "planner/stage/graph_options.hpp"
#include "tests/catch.hpp"

using core::Seconds;
using engine::Saving;
using hw_profiles::Failing;
using planner::FailureOptions;
using planner::Goodput;

namespace {

planner::Plan goodput_plan(std::vector<const char*> pins, std::int64_t gpus = 16,
                           const char* model = "gpt2-124m") {
  planner::Request request;
  request.model = models::find_model(model).value();
  request.gpus = gpus;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  request.job.seq_len = 256;
  request.job.global_batch = 32;
  for (const char* pin : pins) REQUIRE(request.constraints.pin(pin).ok());
  planner::Plan plan = planner::make_plan(request).value();
  REQUIRE(plan.chosen);
  return plan;
}

program::Program lowered(const planner::Plan& plan) {
  const planner::Strategy& s = plan.chosen->strategy;
  const auto graph = models::build_graph(
      plan.model, planner::graph_options(plan.job, s, plan.profile.framework));
  REQUIRE(graph.ok());
  return planner::lower(*graph, plan.job, s,
                        planner::stage::policy_of(plan.job, plan.profile.framework));
}

FailureOptions gpus_fail(double between) {
  FailureOptions o;
  o.rates = {{Failing::gpu, Seconds(between)}};
  o.save = Seconds(5);
  o.restart = Seconds(60);
  return o;
}

core::Result<Goodput> goodput(const planner::Plan& plan, const FailureOptions& failures) {
  planner::SimulateOptions o;
  o.failures = failures;
  auto simulation = planner::simulate(plan, o);
  if (!simulation.ok()) return simulation.problems();
  return *simulation->goodput;
}

}  // namespace

TEST_CASE("a job on failing GPUs keeps the share that its checkpoints save") {
  const planner::Plan plan = goodput_plan({}, 8);
  planner::SimulateOptions o;
  o.failures = gpus_fail(1e6);
  const planner::Simulation s = planner::simulate(plan, o).value();
  REQUIRE(s.goodput);
  CHECK(s.goodput->model.between().value() == Approx(1e6 / 8));
  CHECK(s.goodput->expected > 0.97);
  CHECK(s.goodput->played.goodput == Approx(s.goodput->expected).epsilon(0.02));
  CHECK(s.goodput->step.value() == Approx(s.time.step.value() / s.goodput->expected));
  o.failures->horizon = Seconds(1e12);
  o.failures->rates[0].between = Seconds(1);
  CHECK(!planner::simulate(plan, o).ok());
}

TEST_CASE("a checkpoint has each element once, however the ranks divide and copy it") {
  // gpt2-124m: 124.4 M parameters, mixed: 2 bytes of weights, 4 of masters, 8 of moments.
  const double expected = 14.0 * 124.4e6;
  std::int64_t least = 0, most = 0;
  for (const std::vector<const char*>& pins : std::vector<std::vector<const char*>>{
           {"data=16"}, {"data=16", "sharding=zero1"}, {"data=16", "sharding=zero3"},
           {"data=16", "sharding=zero3", "shard_group=8"}, {"tensor=2", "data=8"}}) {
    const planner::StateBytes bytes = planner::state_bytes(lowered(goodput_plan(pins)));
    INFO(pins.back());
    // Padding of shards and of the vocabulary.
    CHECK(static_cast<double>(bytes.all.value()) == Approx(expected).epsilon(0.01));
    CHECK(bytes.of_rank.value() == Approx(bytes.all.value() / 16).epsilon(1e-3));
    CHECK(bytes.on_device == bytes.of_rank);
    least = least == 0 ? bytes.all.value() : std::min(least, bytes.all.value());
    most = std::max(most, bytes.all.value());
  }
  CHECK(static_cast<double>(most) / static_cast<double>(least) < 1.01);
  // A pipeline's two ends each have the tied embeddings.
  const planner::StateBytes ends =
      planner::state_bytes(lowered(goodput_plan({"pipeline=2", "data=8"})));
  CHECK(static_cast<double>(ends.all.value()) == Approx(14.0 * (124.4e6 + 38.6e6)).epsilon(0.02));
}

TEST_CASE("experts that lie on several ranks are counted once each") {
  const auto bytes = [](std::vector<const char*> pins) {
    planner::Request request;
    request.model = models::find_model("mixtral-8x7b").value();
    request.gpus = 64;
    request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
    for (const char* pin : pins) REQUIRE(request.constraints.pin(pin).ok());
    const planner::Plan plan = planner::make_plan(request).value();
    REQUIRE(plan.chosen);
    return static_cast<double>(planner::state_bytes(lowered(plan)).all.value());
  };
  const double together = bytes({"data=64", "sharding=zero3", "expert=1"});
  CHECK(together == Approx(14 * 46.7e9).epsilon(0.01));
  CHECK(bytes({"data=64", "sharding=zero3", "expert=8"}) == Approx(together).epsilon(0.01));
}

TEST_CASE("the time to save follows from the plan's bytes and the storage") {
  const planner::Plan plan = goodput_plan({"data=16", "sharding=zero1"});
  FailureOptions o = gpus_fail(1e6);
  o.save.reset();
  o.storage = core::BytesPerSecond(1e9);
  const Goodput sync = goodput(plan, o).value();
  CHECK(sync.model.save.value() ==
        Approx(static_cast<double>(sync.bytes.all.value()) / 1e9).epsilon(1e-9));
  CHECK(!sync.assumed.empty());
  o.saving = Saving::async;
  const Goodput async = goodput(plan, o).value();
  CHECK(async.model.behind == sync.model.save);
  CHECK(async.model.save.value() < sync.model.save.value() / 10);
  CHECK(async.expected > sync.expected);
  o.saving = Saving::memory;
  const Goodput memory = goodput(plan, o).value();
  CHECK(memory.model.behind < async.model.behind);
  CHECK(memory.expected >= async.expected);
  CHECK(goodput(goodput_plan({}, 8), o).problems().front().where == "--saves");  // one node
}

TEST_CASE("parts of each kind are counted, with the nodes that they take") {
  const planner::Plan plan = goodput_plan({"data=16"});
  FailureOptions o = gpus_fail(1e7);
  o.rates.push_back({Failing::node, Seconds(2e7)});
  o.rates.push_back({Failing::network, Seconds(2e7)});
  o.rates.push_back({Failing::a_switch, Seconds(4e7), 16, Seconds(100)});
  o.rates.push_back({Failing::software, Seconds(1e6)});
  o.repair = Seconds(3600);
  o.spares = 1;
  const Goodput g = goodput(plan, o).value();
  REQUIRE(g.model.parts.size() == 5);
  const double parts[] = {16, 2, 2, 1, 1};
  const int taken[] = {1, 1, 1, 2, 0};
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(g.model.parts[k].parts == parts[k]);
    CHECK(g.model.parts[k].nodes == taken[k]);
  }
  CHECK(g.model.parts[3].repair.value() == 100);
  CHECK(1 / g.model.between().value() ==
        Approx(16 / 1e7 + 2 / 2e7 + 2 / 2e7 + 1 / 4e7 + 1 / 1e6));
  // All rules, the best one last, and none is better by its own formula.
  REQUIRE(g.rules.size() == 3);
  for (const planner::GoodputRule& r : g.rules) CHECK(r.expected <= g.expected);
  o.repair.reset();
  CHECK(planner::failure_problems(plan, o).front().where == "--spare-nodes");
}

TEST_CASE("a job of one GPU, and one that fails within each step, get an answer") {
  const planner::Plan plan = goodput_plan({}, 1);
  CHECK(goodput(plan, gpus_fail(1e7)).value().expected > 0.99);
  FailureOptions o = gpus_fail(1);
  o.horizon = Seconds(3600);
  o.restart = Seconds(100);
  const Goodput g = goodput(plan, o).value();
  CHECK(g.expected < 1e-9);
  CHECK(g.played.steps == 0);
  o.interval = 7;
  CHECK(goodput(plan, o).value().interval == 7);
}

TEST_CASE("a pipeline that never flushes is asked about failures like any other") {
  const planner::Plan plan = goodput_plan({"pipeline=2", "schedule=pipedream_2bw", "data=8"});
  const Goodput g = goodput(plan, gpus_fail(1e7)).value();
  CHECK(g.expected > 0.99);
  CHECK(g.bytes.all.value() > 0);
}

TEST_CASE("a checkpoint over the links of the steps takes its bytes' time and costs more") {
  // Every layer is gathered over the network, which the checkpoint shares.
  const planner::Plan plan = goodput_plan({"data=16", "sharding=zero3", "shard_group=16"});
  const auto simulated = [&](double storage, bool to_nodes,
                             std::optional<FailureOptions> failures) {
    planner::SimulateOptions o;
    o.flows.emplace();
    o.checkpoint = {to_nodes, core::BytesPerSecond(storage)};
    o.failures = std::move(failures);
    return planner::simulate(plan, o).value();
  };
  const planner::Simulation fast = simulated(1e12, false, {});
  REQUIRE(fast.checkpoint);
  const planner::CheckpointTraffic& t = *fast.checkpoint;
  CHECK(t.bytes.value() == Approx(14.0 * 124'439'808).epsilon(0.01));
  // Two nodes whose networks carry half of it each, at their profile's bandwidth.
  const double network = plan.profile.node.internode_bandwidth.value() *
                         plan.profile.node.internode_efficiency.value_or(1);
  const double of_node = static_cast<double>(t.bytes.value()) / 2;
  CHECK(t.alone.value() == Approx(of_node / network).epsilon(0.01));
  CHECK(t.behind > t.alone);
  CHECK(t.delay.value() > 0);
  CHECK(t.delay < t.behind);

  // Storage far slower than the network: its own time, over many steps, each a little longer.
  const planner::Simulation slow = simulated(1e8, false, {});
  const double seconds = static_cast<double>(slow.checkpoint->bytes.value()) / 1e8;
  CHECK(slow.checkpoint->alone.value() == Approx(seconds).epsilon(1e-3));
  CHECK(slow.checkpoint->behind.value() == Approx(seconds).epsilon(0.01));
  REQUIRE(slow.checkpoint->step);
  CHECK(*slow.checkpoint->step >= slow.time.step);
  CHECK(*slow.checkpoint->step < slow.time.step * 1.05);

  // Goodput counts what it takes and what it costs.
  FailureOptions failures = gpus_fail(1e7);
  failures.save.reset();
  failures.storage = core::BytesPerSecond(1e12);
  failures.saving = Saving::async;
  const planner::Simulation both = simulated(1e12, false, failures);
  failures.storage = core::BytesPerSecond(1e12);
  const Goodput apart = goodput(plan, failures).value();
  CHECK(both.goodput->model.behind == both.checkpoint->behind);
  CHECK((both.goodput->model.save - apart.model.save).value() ==
        Approx(both.checkpoint->delay.value()));
  CHECK(both.goodput->model.behind > apart.model.behind);

  // Copies to the other node cross both networks, whole.
  const planner::Simulation copied = simulated(1, true, {});
  CHECK(copied.checkpoint->alone.value() == Approx(t.alone.value()).epsilon(0.01));

  planner::SimulateOptions wrong;
  wrong.checkpoint.emplace();
  CHECK(planner::simulate(plan, wrong).problems().front().fix == "write --links shared beside it");
}
