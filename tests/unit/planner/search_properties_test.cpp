// What must hold of every best plan, whatever the machine: against all of its rivals, and against
// better machines.
#include <algorithm>
#include <map>

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/preference.hpp"
#include "planner/search/search.hpp"
#include "planner/search/space.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {

struct Asked {
  const char* model;
  const char* gpu;
  std::int64_t gpus, seq_len, batch;
};

Request request(const Asked& a) {
  Request r;
  r.model = models::find_model(a.model).value();
  r.gpus = a.gpus;
  r.profile = hw_profiles::find_profile(a.gpu).value();
  r.job.seq_len = a.seq_len;
  r.job.global_batch = a.batch;
  r.max_risk = 1;                      // the fastest, whatever preference_test.cpp says of it
  r.simpler_within = 0;
  return r;
}

Plan plan_of(const Request& r) {
  core::Result<Plan> plan = make_plan(r);
  if (!plan.ok()) FAIL(core::to_text(plan.problems()));
  return std::move(plan).value();
}

double step_of(const Request& r) {
  const Plan plan = plan_of(r);
  REQUIRE(plan.chosen);
  INFO(to_text(plan.chosen->strategy));
  return plan.chosen->time.step.value();
}

// The fastest candidate of the space that fits, each lowered, replayed and swept.
Candidate fastest_of_all(const Request& r) {
  const Question q = make_question(r.model, r.job, r.profile, r.gpus).value();
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>, models::ModelGraph> graphs;
  std::optional<Candidate> best;
  const SpaceOptions options{r.gpus, r.profile.node.gpus_per_node, r.model.layers,
                             r.model.variants.experts};
  for (const Structure& structure : structures(q.job, options, {}))
    for (const std::int64_t size : structure.micro_batches) {
      const Strategy s = with_micro_batch(structure.strategy, size, q.job.global_batch);
      if (!strategy_problems(r.model, q.job, s, r.gpus).empty()) continue;
      const Strategy resolved = resolve(r.model, q.job, s);
      const std::tuple key{resolved.tensor, resolved.expert, resolved.expert_tensor,
                           resolved.sequence_parallel};
      if (!graphs.contains(key))
        graphs.emplace(key,
                       models::build_graph(r.model, graph_options(q.job, resolved)).value());
      Candidate c = evaluate(q, graphs.at(key), resolved);
      if (c.memory.worst.device > c.memory.usable) continue;
      if (!best || rank_of(q.job, c, r) < rank_of(q.job, *best, r))
        best = std::move(c);
    }
  REQUIRE(best);
  return *best;
}

}  // namespace

TEST_CASE("no strategy of the space beats the plan") {
  const Asked asked = GENERATE(Asked{"gpt2-124m", "rtx3090", 4, 128, 16},
                               Asked{"gpt2-355m", "a100-sxm-80g", 8, 1024, 8},
                               Asked{"gpt2-1.5b", "h100-sxm-80g", 2, 1024, 8});
  const Request r = request(asked);
  const Plan plan = plan_of(r);
  const Candidate best = fastest_of_all(r);
  INFO(asked.model << " on " << asked.gpus << " x " << asked.gpu << ": "
                   << to_text(best.strategy) << " takes " << best.time.step.value());
  REQUIRE(plan.chosen);
  INFO("chosen: " << to_text(plan.chosen->strategy));
  // The search looks at finalists of its closed form, which is within 2 % of these figures.
  CHECK(plan.chosen->time.step.value() <= 1.01 * best.time.step.value());
}

TEST_CASE("no strategy of the space beats the plan of a mixture of experts") {
  Request r = request({"mixtral-8x7b", "rtx3090", 8, 512, 16});
  r.model.layers = 4;
  r.model.hidden = 2048;
  r.model.ffn_hidden = 7168;
  r.model.heads = 32;
  r.model.kv_heads = 8;
  r.model.head_dim = 64;
  const Plan plan = plan_of(r);
  const Candidate best = fastest_of_all(r);
  INFO(to_text(best.strategy) << " takes " << best.time.step.value());
  REQUIRE(plan.chosen);
  INFO("chosen: " << to_text(plan.chosen->strategy));
  CHECK(plan.chosen->time.step.value() <= 1.01 * best.time.step.value());
}

TEST_CASE("Mixtral 8x7B on 64 H100 has more memory where it divides its experts") {
  Request r = request({"mixtral-8x7b", "h100-sxm-80g", 64, 8192, 512});
  Request divided = r;                 // whole experts are as fast where there is memory for them
  REQUIRE(divided.constraints.forbid("expert=1").ok());
  const Plan plan = plan_of(divided);
  REQUIRE(plan.chosen);
  const Strategy& s = plan.chosen->strategy;
  INFO(to_text(s));
  CHECK(s.expert > 1);
  // The exchange stays inside a node, as in published recipes.
  CHECK(s.expert * s.tensor <= 8);
  REQUIRE(r.constraints.pin("expert=1").ok());
  const Plan whole = plan_of(r);
  REQUIRE(whole.chosen);
  CHECK(whole.chosen->time.step.value() > 0.99 * plan.chosen->time.step.value());
  CHECK(whole.chosen->memory.worst.device > plan.chosen->memory.worst.device);
  REQUIRE(r.constraints.forbid("checkpoint=pointwise").ok());
  const Plan kept = plan_of(r);
  REQUIRE(kept.chosen);
  CHECK(kept.chosen->time.step.value() > 1.02 * plan.chosen->time.step.value());
}

TEST_CASE("nothing on the Pareto front is beaten by anything printed, and the choice is on it") {
  const Asked asked = GENERATE(Asked{"gpt2-1.5b", "h100-sxm-80g", 8, 1024, 512},
                               Asked{"gpt2-124m", "rtx3090", 8, 512, 64},
                               Asked{"llama3-70b", "h100-sxm-80g", 64, 8192, 64});
  const Plan plan = plan_of(request(asked));
  REQUIRE(plan.chosen);
  const auto figures = [](const Candidate& c) {
    return std::make_pair(c.time.step.value(), c.memory.worst.device.value());
  };
  CHECK(std::ranges::any_of(plan.pareto, [&](const Candidate& c) {
    return figures(c) == figures(*plan.chosen);
  }));
  std::vector<Candidate> all = plan.alternatives;
  all.insert(all.end(), plan.pareto.begin(), plan.pareto.end());
  for (const Candidate& front : plan.pareto)
    for (const Candidate& other : all) {
      const auto [step, device] = figures(front);
      const auto [others_step, others_device] = figures(other);
      CHECK(!(others_step < step && others_device <= device));
      CHECK(!(others_step <= step && others_device < device));
    }
}

TEST_CASE("a better machine never makes the best plan slower") {
  const Asked asked = GENERATE(Asked{"gpt2-124m", "rtx3090", 8, 512, 64},
                               Asked{"gpt2-1.5b", "a100-sxm-80g", 16, 1024, 64},
                               Asked{"llama2-7b", "h100-sxm-80g", 16, 4096, 64},
                               Asked{"llama3-70b", "h100-sxm-80g", 64, 8192, 64},
                               Asked{"mixtral-8x7b", "h100-sxm-80g", 32, 4096, 64});
  const Request plain = request(asked);
  const double before = step_of(plain);
  const auto with = [&](auto&& change) {
    Request r = plain;
    change(r.profile);
    return step_of(r);
  };
  INFO(asked.model << " on " << asked.gpus << " x " << asked.gpu);
  // Finalists are ranked by the sweep, found by the closed form: 1 % between the two.
  const double bar = 1.01 * before;
  CHECK(with([](auto& p) { p.node.link_bandwidth = p.node.link_bandwidth * 2.0; }) <= bar);
  CHECK(with([](auto& p) { p.node.internode_bandwidth = p.node.internode_bandwidth * 2.0; }) <=
        bar);
  CHECK(with([](auto& p) { p.node.link_latency = p.node.link_latency * 0.5; }) <= bar);
  CHECK(with([](auto& p) { p.node.internode_latency = p.node.internode_latency * 0.5; }) <= bar);
  CHECK(with([](auto& p) { p.gpu.usable = p.gpu.usable * 2; }) <= bar);
  CHECK(with([](auto& p) { p.gpu.memory_bandwidth = p.gpu.memory_bandwidth * 2.0; }) <= bar);
}

TEST_CASE("a cloud's network costs what it lacks of the usual node's") {
  const auto on = [](const Asked& asked, const char* node) {
    Request r = request(asked);
    REQUIRE(hw_profiles::use_node(r.profile, node, "test").ok());
    return step_of(r);
  };
  const Asked small{"gpt2-124m", "h100-sxm-80g", 16, 1024, 32};
  const Asked large{"llama2-7b", "h100-sxm-80g", 16, 4096, 16};
  const Asked ampere{"llama2-7b", "a100-sxm-80g", 16, 4096, 16};
  // 79 us of a hop over EFA for 14 of InfiniBand, on wires of the same rate.
  CHECK(on(small, "aws-p5") > 1.01 * on(small, "dgx-h100"));
  CHECK(on(small, "azure-nd-h100-v5") == on(small, "dgx-h100"));
  // 1600 Gbit/s for 3200, 800 for 1600, 400 for 1600.
  CHECK(on(large, "gcp-a3-mega") > on(large, "dgx-h100"));
  CHECK(on(large, "gcp-a3-high") > on(large, "gcp-a3-mega"));
  CHECK(on(ampere, "aws-p4de") > on(ampere, "dgx-a100"));
}

// Where the first plain strategies fit, they recompute everything: what hosts can hold is faster.
TEST_CASE("a little more memory makes no plan slower than a preference for the usual allows") {
  const Asked asked = GENERATE(Asked{"llama2-13b", "h100-sxm-80g", 8, 4096, 1024},
                               Asked{"mixtral-8x7b", "h100-sxm-80g", 32, 8192, 512},
                               Asked{"gpt-neox-20b", "h100-sxm-80g", 16, 2048, 1024});
  Request r = request(asked);
  r.max_risk = Request().max_risk;
  r.simpler_within = Request().simpler_within;
  double before = std::numeric_limits<double>::infinity();
#ifdef PLANNER_WHOLE_SPACES            // of the full tier
  const std::vector<std::int64_t> sizes{20, 24, 28, 36, 48, 64};
#else
  const std::vector<std::int64_t> sizes{20, 28, 48};
#endif
  for (const std::int64_t gibibytes : sizes) {
    CAPTURE(asked.model, gibibytes);
    r.profile.gpu.usable = core::Bytes(gibibytes << 30);
    const double step = step_of(r);
    CHECK(step <= 1.1 * before);
    before = std::min(before, step);
  }
}

TEST_CASE("one rank communicates nothing") {
  for (const char* model : {"gpt2-124m", "bert-large", "mistral-7b"}) {
    const Plan plan = plan_of(request({model, "h200-sxm-141g", 1, 128, 8}));
    REQUIRE(plan.chosen);
    CHECK(plan.chosen->communication.empty());
    CHECK(plan.chosen->time.exposed_communication.value() == 0);
  }
}

TEST_CASE("sharding over K ranks divides what it shards by K, up to padding") {
  Request r = request({"gpt2-355m", "h100-sxm-80g", 1, 256, 16});
  const auto terms = [&](std::int64_t k, const std::string& sharding) {
    Request q = r;
    q.gpus = k;
    REQUIRE(q.constraints.pin("data=" + std::to_string(k)).ok());
    REQUIRE(q.constraints.pin("sharding=" + (k == 1 ? "none" : sharding)).ok());
    const Plan plan = plan_of(q);
    REQUIRE(plan.chosen);
    return plan.chosen->memory.worst.terms;
  };
  const auto alone = terms(1, "none");
  for (const std::int64_t k : {2, 4, 8}) {
    const auto divided = [&](core::Bytes shard, core::Bytes whole) {
      CAPTURE(k, shard.value(), whole.value());
      CHECK(shard.value() * k >= whole.value());
      CHECK(static_cast<double>(shard.value() * k) <= 1.001 * static_cast<double>(whole.value()));
    };
    const auto zero1 = terms(k, "zero1"), zero3 = terms(k, "zero3");
    divided(zero1[2], alone[2]);       // optimizer
    CHECK(zero1[0] == alone[0]);       // weights
    for (std::size_t t = 0; t < 3; ++t) divided(zero3[t], alone[t]);
  }
}

TEST_CASE("a plan does not depend on the threads that replay its finalists") {
  for (const Asked& asked : {Asked{"gpt2-1.5b", "rtx3090", 8, 1024, 64},
                             Asked{"llama2-7b", "a100-sxm-80g", 16, 2048, 64}}) {
    const auto written = [&](int threads) {
      Request r = request(asked);
      r.threads = threads;
      Plan plan = plan_of(r);
      plan.search.seconds = core::Seconds(0);
      return to_json_text(plan);
    };
    const std::string alone = written(1);
    CHECK(written(2) == alone);
    CHECK(written(5) == alone);
  }
}
