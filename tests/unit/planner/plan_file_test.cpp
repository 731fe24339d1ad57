#include <fmt/format.h>

#include "core/json.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/keys.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {

Candidate sample_candidate() {
  Candidate c;
  c.strategy.data = 4;
  c.strategy.tensor = 2;
  c.strategy.sharding = Sharding::zero1;
  c.strategy.shard_group = 4;
  c.strategy.stages = {12};
  c.strategy.offload = {"optimizer"};
  c.memory.rank = 3;
  for (int i = 0; i < program::kTerms; ++i) {
    c.memory.worst.terms[static_cast<std::size_t>(i)] = core::Bytes{1'000 + i};
    c.memory.worst.peaks[static_cast<std::size_t>(i)] = core::Bytes{2'000 + i};
  }
  c.memory.worst.live = core::Bytes{6'015};
  c.memory.worst.device = core::Bytes{7'000};
  c.memory.usable = core::gib(79);
  c.memory.stages = {{0, c.memory.worst}};
  c.time = {core::Seconds{1.5}, core::Seconds{1.25}, core::Seconds{0.125},
            core::Seconds{0},   core::Seconds{0.125}, core::Seconds{0.5}, true};
  c.communication = {{"gradients", "all_reduce", "ring", 4, 7, core::Bytes{100},
                      core::Bytes{150}, core::Seconds{0.25}}};
  c.throughput = {1, 2, 3, 4, 0.5};
  c.uncertainty = {core::Seconds{1}, core::Seconds{2}, core::Bytes{6'900}, core::Bytes{7'100}};
  return c;
}

Plan sample_plan() {
  Plan plan;
  plan.assumptions = {"one", "two"};
  plan.training = cost::Training{500'000'000'000, core::Seconds{1e6}, 2222.5, std::nullopt,
                                 cost::Joules{1e12}};
  plan.model = models::find_model("gpt2-124m").value();
  plan.parameters = 124'439'808;
  plan.gpus = 8;
  plan.gpus_per_node = 8;
  plan.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  plan.job.seq_len = 1024;
  plan.job.global_batch = 512;
  plan.job.reduce_dtype = core::DType::f32;
  plan.search = {10, 2, 8, 3, 0, core::Seconds{0.5}};
  plan.chosen = sample_candidate();
  plan.alternatives = {sample_candidate(), sample_candidate()};
  plan.pareto = {sample_candidate()};
  plan.rejected = {{Strategy{}, "memory", 100, 50, "sharding=zero1"}};
  plan.rejected_per_limit = {{"memory", 5}};
  plan.other_machines = {{"rtx3090", {}, {}, ""},
                         {"h100-sxm-80g", sample_candidate(),
                          hw_profiles::DollarsPerHour(2.5), "as given with --price"}};
  Released released;
  released.scope = Released::Scope::all_but_degrees;
  released.keys = {"checkpoint", "checkpoint_every"};
  released.helps = true;
  released.best = Strategy{};
  released.step = core::Seconds{1.25};
  released.device = core::gib(3);
  released.out_of_memory = 0.25;
  plan.released = {released, {Released::Scope::one, {"data"}, false, {}, {}, {}, 0}};
  plan.rules_of_thumb = {{"state", "16 P", 24e9, "B", "[zero]"}};
  return plan;
}

// The file with one text replaced.
std::string damaged(std::string_view from, std::string_view to) {
  std::string text = to_json_text(sample_plan());
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string problems_of(const std::string& text) {
  const core::Result<Plan> plan = parse_plan(text, "plan.json");
  REQUIRE_FALSE(plan.ok());
  return core::to_text(plan.problems());
}

}  // namespace

TEST_CASE("a plan of any precision comes back from its file") {
  for (const core::DType precision :
       {core::DType::bf16, core::DType::f16, core::DType::f8, core::DType::f4}) {
    Plan plan = sample_plan();
    plan.job.precision = precision;
    const auto back = parse_plan(to_json_text(plan), "plan.json");
    REQUIRE(back.ok());
    CHECK(back->job.precision == precision);
  }
}

TEST_CASE("a plan file reads back as what was written") {
  const std::string text = to_json_text(sample_plan());
  const core::Result<Plan> plan = parse_plan(text, "plan.json");
  if (!plan.ok()) FAIL(core::to_text(plan.problems()));
  CHECK(to_json_text(*plan) == text);
  CHECK(plan->chosen->strategy == sample_candidate().strategy);
  CHECK(plan->job == sample_plan().job);
  CHECK(plan->model == sample_plan().model);
}

TEST_CASE("chunks without layers are read back") {
  Plan plan = sample_plan();
  plan.chosen->strategy.stages = {0, 1, 0};
  const core::Result<Plan> read = parse_plan(to_json_text(plan), "plan.json");
  if (!read.ok()) FAIL(core::to_text(read.problems()));
  CHECK(read->chosen->strategy.stages == plan.chosen->strategy.stages);
}

TEST_CASE("a plan from before loss_chunks has one chunk, and another number is read back") {
  const core::Result<Plan> before = parse_plan(damaged("\"loss_chunks\": 1,", ""), "plan.json");
  if (!before.ok()) FAIL(core::to_text(before.problems()));
  CHECK(before->chosen->strategy.loss_chunks == 1);
  const std::string eight = damaged("\"loss_chunks\": 1,", "\"loss_chunks\": 8,");
  CHECK(parse_plan(eight, "plan.json")->chosen->strategy.loss_chunks == 8);
  CHECK_THAT(problems_of(damaged("\"loss_chunks\": 1,", "\"loss_chunks\": 0,")),
             Catch::Contains("/chosen/strategy/loss_chunks"));
}

TEST_CASE("a plan from before context_method gathers keys, and another method is read back") {
  const std::string gather = "\"context_method\": \"gather\",";
  const core::Result<Plan> before = parse_plan(damaged(gather, ""), "plan.json");
  if (!before.ok()) FAIL(core::to_text(before.problems()));
  CHECK(before->chosen->strategy.context_method == ContextMethod::gather);
  const std::string ring = damaged(gather, "\"context_method\": \"ring\",");
  CHECK(parse_plan(ring, "plan.json")->chosen->strategy.context_method == ContextMethod::ring);
  CHECK_THAT(problems_of(damaged(gather, "\"context_method\": \"rings\",")),
             Catch::Contains("/chosen/strategy/context_method"));
}

TEST_CASE("a plan from before a key was there has the key's default, and other keys are needed") {
  Plan plan = sample_plan();
  plan.chosen->strategy = Strategy{};
  plan.chosen->strategy.data = plan.chosen->strategy.shard_group = 8;
  const std::string text = to_json_text(plan);
  int later = 0;
  for (const StrategyKey& key : strategy_keys()) {
    // Each key of the chosen candidate's strategy stands in a line of its own.
    const std::size_t chosen = text.find("\"chosen\"");
    const std::size_t at = text.find(fmt::format("\"{}\": ", key.name), chosen);
    INFO(key.name);
    REQUIRE(at != std::string::npos);
    std::size_t end = text.find('\n', at);
    if (text[end - 1] == '[') end = text.find("],\n", at) + 2;
    std::string before = text;
    before.erase(at, end - at);
    if (before.find_last_not_of(" \n", at - 1) != std::string::npos && text[end - 1] != ',')
      before.erase(before.find_last_of(',', at), 1);
    const core::Result<Plan> read = parse_plan(before, "plan.json");
    CHECK(read.ok() == key.optional);
    if (read.ok()) CHECK(read->chosen->strategy == plan.chosen->strategy);
    later += key.optional ? 1 : 0;
  }
  CHECK(later >= 8);
}

TEST_CASE("a plan without a chosen candidate is a plan") {
  Plan plan = sample_plan();
  plan.chosen.reset();
  const std::string text = to_json_text(plan);
  CHECK(text.find("\"chosen\": null") != std::string::npos);
  CHECK_FALSE(parse_plan(text, "plan.json")->chosen);
}

TEST_CASE("a damaged plan names every problem with its place") {
  std::string text = damaged("\"mfu\": 0.5", "\"mfu\": \"half\"");
  const std::string_view from = "\"sharding\": \"zero1\"";
  text.replace(text.find(from), from.size(), "\"sharding\": \"zero9\"");
  const std::string problems = problems_of(text);
  CHECK_THAT(problems, Catch::Contains("/chosen/throughput/mfu"));
  CHECK_THAT(problems, Catch::Contains("/chosen/strategy/sharding"));
  CHECK_THAT(problems, Catch::Contains("plan.json:"));
}

TEST_CASE("hostile numbers are refused") {
  CHECK_THAT(problems_of(damaged("\"data\": 4", "\"data\": 9000000000000000000")),
             Catch::Contains("/chosen/strategy/data"));
  CHECK_THAT(problems_of(damaged("\"data\": 4", "\"data\": 0")), Catch::Contains("data"));
  CHECK_THAT(problems_of(damaged("\"data\": 4", "\"data\": 16777216")), Catch::Contains("8 ranks"));
  CHECK_THAT(problems_of(damaged("\"micro_batch\": 1", "\"micro_batch\": -1")),
             Catch::Contains("micro_batch"));
  CHECK_THAT(problems_of(damaged("\"live\": 6015", "\"live\": -6015")), Catch::Contains("live"));
  CHECK_THAT(problems_of(damaged("\"step\": 1.5", "\"step\": 1e300")), Catch::Contains("step"));
  CHECK_THAT(problems_of(damaged("\"gpus\": 8", "\"gpus\": 0")), Catch::Contains("/cluster/gpus"));
}

TEST_CASE("another file is told apart from a plan") {
  CHECK_THAT(problems_of("{\"schema\": \"run/1\"}"), Catch::Contains("plan/1"));
  CHECK_THAT(problems_of("[1, 2]"), Catch::Contains("object"));
  CHECK_THAT(problems_of("{\"schema\": "), Catch::Contains("plan.json:1"));
}
