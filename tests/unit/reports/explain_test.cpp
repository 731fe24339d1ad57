#include <algorithm>
#include <array>
#include <set>

#include "core/json.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search/search.hpp"
#include "reports/explanation.hpp"
#include "reports/facts.hpp"
#include "reports/laws.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports;
using reports_test::has;
using reports_test::sample_plan;

namespace {

LawRow row(const std::vector<LawRow>& rows, std::string_view what) {
  const auto it = std::ranges::find(rows, what, &LawRow::what);
  REQUIRE(it != rows.end());
  return *it;
}

}  // namespace

TEST_CASE("a field is explained by its formula, the plan's own inputs and a source") {
  const Explanation e = explain(sample_plan(), "memory.optimizer").value();
  CHECK(has(e.value, "3.00 GiB"));
  CHECK(has(e.value, "3221225472"));
  CHECK(std::ranges::count(e.inputs, std::pair<std::string, std::string>(
                                         "strategy.sharding", "zero1")) == 1);
  CHECK_FALSE(e.source.empty());
}

TEST_CASE("a number of the profile is explained by where it comes from") {
  const planner::Plan plan = sample_plan();
  const Explanation e = explain(plan, "gpu.memory_bandwidth").value();
  CHECK(e.source == plan.profile.lookup("gpu.memory_bandwidth")->source);
}

TEST_CASE("an entry of communication is explained by its own algorithm and group") {
  const Explanation e =
      explain(sample_plan(), "communication.gradients.all_reduce.wire_bytes_per_rank").value();
  CHECK(has(e.formula, "2 S (K - 1) / K"));
  CHECK(std::ranges::count(e.inputs, std::pair<std::string, std::string>(
                                         "communication.gradients.all_reduce.group_size", "4")) ==
        1);
}

TEST_CASE("an unknown field is answered with the nearest") {
  const auto wrong = explain(sample_plan(), "memory.weight");
  REQUIRE_FALSE(wrong.ok());
  CHECK(has(core::to_text(wrong.problems()), "memory.weights"));
  const auto bare = explain(sample_plan(), "bubble");
  REQUIRE_FALSE(bare.ok());
  CHECK(has(core::to_text(bare.problems()), "time.bubble"));
  const auto misspelt = explain(sample_plan(), "weigths");
  REQUIRE_FALSE(misspelt.ok());
  CHECK(has(core::to_text(misspelt.problems()), "memory.weights"));
}

TEST_CASE("what NCCL is assumed to run answers why, by the entry's place or by its names") {
  planner::Plan plan = sample_plan();
  plan.chosen->communication[0].library = {
      {"ring", "ll128", 24, 7, core::Bytes{100}, core::Bytes{10}, core::Bytes{20}}};
  for (const char* path : {"communication.0.library.0.channels",
                           "communication.gradients.all_reduce.library.0.channels"}) {
    INFO(path);
    const Explanation e = explain(plan, path).value();
    CHECK(e.value == "24");
    CHECK(has(e.formula, "what NCCL is assumed to run"));
  }
  CHECK_FALSE(explain(plan, "communication.0.library.1.channels").ok());
}

TEST_CASE("every input of every formula is a field of a plan") {
  planner::Plan plan = sample_plan();
  for (const auto& [what, collective, algorithm] :
       {std::array{"expert", "exchange", "pairwise"}, {"context", "exchange", "pairwise"},
        {"context", "send", "ring"}})
    plan.chosen->communication.push_back({what, collective, algorithm, 4, 2, core::Bytes{80},
                                          core::Bytes{60}, core::Seconds{0.05}});
  for (const Formula& f : formulas()) {
    if (f.field.find('*') != std::string_view::npos) continue;
    std::string field(f.field);
    for (std::string_view list : {"stages.stage", "rejected.", "other_machines."})
      if (const std::size_t at = field.find(list); at != std::string::npos)
        field.insert(at + list.find('.'), list.starts_with("other") ? ".1" : ".0");
    INFO(field);
    const Explanation e = explain(plan, field).value();
    const auto blanks = std::ranges::count(f.inputs, ' ');
    CHECK(static_cast<std::ptrdiff_t>(e.inputs.size()) == (f.inputs.empty() ? 0 : blanks + 1));
  }
}

namespace {

// Every number of a value, with its dotted path.
void walk(const core::Json& value, const std::string& path,
          std::vector<std::pair<std::string, const core::Json*>>& out) {
  const std::string dot = path.empty() ? "" : path + '.';
  if (value.is_number()) out.emplace_back(path, &value);
  if (value.is_object())
    for (const core::Json::Member& m : value.members()) walk(m.value, dot + m.key, out);
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      walk(value.items()[i], dot + std::to_string(i), out);
}

planner::Plan small_plan() {
  planner::Request request;
  request.model = models::find_model("gpt2-124m").value();
  request.gpus = 4;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  request.job.seq_len = 64;
  request.job.global_batch = 8;
  request.top = 1;
  REQUIRE(request.constraints.pin("pipeline=2").ok());
  return planner::make_plan(request).value();
}

}  // namespace

TEST_CASE("every number of a plan answers why, with the value that the file has") {
  for (const planner::Plan& plan : {sample_plan(), small_plan()}) {
    const core::Json json = core::parse_json(planner::to_json_text(plan), "plan").value();
    std::vector<std::pair<std::string, const core::Json*>> numbers;
    walk(json, "", numbers);
    REQUIRE(numbers.size() > 100);
    for (const auto& [path, value] : numbers) {
      const auto e = explain(plan, path);
      INFO(path);
      REQUIRE(e.ok());
      CHECK(e->exact == *value);
      CHECK_FALSE(e->source.empty());
      CHECK(e->formula != "a value of the plan itself");
    }
  }
}

TEST_CASE("a path reaches the same number by index and by name") {
  const planner::Plan plan = sample_plan();
  CHECK(explain(plan, "communication.0.count")->exact ==
        explain(plan, "chosen.communication.gradients.all_reduce.count")->exact);
  CHECK(explain(plan, "alternatives.0.time.step")->exact == core::Json(1.8));
  CHECK(explain(plan, "alternatives.0.strategy.data")->exact == core::Json(8));
  CHECK_FALSE(explain(plan, "alternatives.7.time.step").ok());
  CHECK_FALSE(explain(plan, "communication.0").ok());
}

TEST_CASE("inputs are those of the candidate that is asked about") {
  const Explanation e = explain(sample_plan(), "alternatives.0.throughput.mfu").value();
  CHECK(std::ranges::count(e.inputs, std::pair<std::string, std::string>("time.step", "1.80 s")) ==
        1);
}

TEST_CASE("a law or fact is worked out for the plan: Psi 124,439,808, K 8, N 12, h 768, s 1024") {
  const planner::Plan plan = sample_plan();
  const auto value = [&](std::string_view name) {
    return explain(plan, name).value().exact.as_double();
  };
  constexpr double kPsi = 124'439'808;
  CHECK(value("C1") == kPsi * 7);
  CHECK(value("C2") == kPsi * 8);
  CHECK(value("c3") == kPsi * 4);  // K / M = 8 / 2
  CHECK(value("C4") == 217'769'664);  // 2 Psi 7 / 8
  CHECK(value("C5") == kPsi * 2);
  CHECK(value("C7") == Approx(8 * (1.5 - 0.125) / 1.5));
  CHECK(value("C8") == Approx(1 - 0.125 / 0.5));
  CHECK(value("C10") == 8);
  CHECK(value("M1") == kPsi * 16);
  CHECK(value("M2") == kPsi * 12);
  CHECK(value("M5") == 12.0 * 768 * 32 * 1024 * 12 * 2);
  CHECK(value("M8") == Approx(1.0 / 22));
  CHECK(value("M10") == Approx(3.4641016));  // sqrt(12)
  CHECK(value("M11") == 78);                 // 12 x 13 / 2
  CHECK(value("M12") == kPsi * 2);
  CHECK(value("M13") == kPsi * 2);
  CHECK(value("M15") == 12.0 * 4 * 8 * 2 * 768);
}

TEST_CASE("every law C1 to C10 and fact M1 to M16 has an answer and a source") {
  REQUIRE(facts().size() == 26);
  for (const Fact& fact : facts()) {
    const Explanation e = explain(sample_plan(), fact.name).value();
    INFO(fact.name);
    CHECK_FALSE(e.exact.is_null());
    CHECK_FALSE(e.source.empty());
    CHECK_FALSE(e.claim.empty());
    const auto blanks = std::ranges::count(fact.inputs, ' ');
    CHECK(static_cast<std::ptrdiff_t>(e.inputs.size()) == (fact.inputs.empty() ? 0 : blanks + 1));
  }
}

TEST_CASE("laws: 12 elements of f32 on 4 GPUs and 2 servers, by hand") {
  const LawQuestion q{.elements = 12, .gpus = 4, .servers = 2};
  const std::vector<LawRow> rows = law_table(q, std::array<std::optional<exec::RunRecord>, 5>{});
  // d = 48 bytes
  CHECK(row(rows, "naive all-reduce, per GPU").predicted == 144);           // 48 x 3
  CHECK(row(rows, "one server, per GPU").predicted == 48);                  // 48
  CHECK(row(rows, "one server, the server").predicted == 192);               // 48 x 4
  CHECK(row(rows, "M servers, per server").predicted == 96);                // 48 x 4 / 2
  CHECK(row(rows, "M servers on workers").predicted == 72);     // 48 x 3 / 2
  CHECK(row(rows, "ring all-reduce, per GPU").predicted == 72);             // 2 x 48 x 3 / 4
  CHECK(row(rows, "data-parallel form").predicted == 48);
  for (const LawRow& r : rows) {
    CHECK(r.stated == static_cast<double>(r.predicted));
    CHECK_FALSE(r.measured);
  }
}

TEST_CASE("laws: padding is the only excess over the formula") {
  for (int gpus = 2; gpus <= 9; ++gpus)
    for (int servers = 1; servers <= 5; ++servers) {
      const LawQuestion q{.elements = 1009, .gpus = gpus, .servers = servers};
      for (const LawRow& r : law_table(q, std::array<std::optional<exec::RunRecord>, 5>{})) {
        const double excess = static_cast<double>(r.predicted) - r.stated;
        INFO(r.what << " K " << gpus << " M " << servers);
        CHECK(excess >= -1e-9);
        CHECK(excess <= 4.0 * 2 * gpus * servers);  // less than a padding element per message
      }
    }
}

TEST_CASE("laws: counters of a run stand beside the prediction") {
  const LawQuestion q{.elements = 12, .gpus = 4, .servers = 2};
  std::array<std::optional<exec::RunRecord>, 5> runs;
  exec::RunRecord ring = reports_test::sample_run();
  ring.communication = {{"gradients", "all_reduce", "ring", 4, 1, core::Bytes{48},
                         core::Bytes{72}, std::nullopt},
                        {"loss", "all_reduce", "ring", 4, 1, core::Bytes{4}, core::Bytes{6},
                         std::nullopt}};
  runs[static_cast<std::size_t>(LawRun::ring)] = ring;
  const std::vector<LawRow> rows = law_table(q, runs);
  CHECK(row(rows, "ring all-reduce, per GPU").measured == 72);
  CHECK(row(rows, "data-parallel form").measured == 48);
  CHECK_FALSE(row(rows, "one server, per GPU").measured);
}

TEST_CASE("laws: servers on workers need a worker each") {
  CHECK_FALSE(law_strategy(LawRun::colocated_servers, {.elements = 1, .gpus = 2, .servers = 3}));
  CHECK(law_strategy(LawRun::servers, {.elements = 1, .gpus = 2, .servers = 3})->gpus == 5);
}

TEST_CASE("an operator that ranks divide says along what, and what else would cost") {
  planner::Request request;
  request.model = models::find_model("alexnet").value();
  request.gpus = 4;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  for (const char* const pin : {"split=4", "splits=fc6*=out,fc8=in", "pipeline=1"})
    REQUIRE(request.constraints.pin(pin).ok());
  const auto plan = planner::make_plan(request);
  REQUIRE(plan.ok());
  REQUIRE(plan->chosen);
  const auto fc8 = reports::explain(*plan, "splits.fc8");
  REQUIRE(fc8.ok());
  CHECK(fc8->value == "divided by inputs, whose sums are added, over 4 ranks");
  CHECK(fc8->inputs.front().second == "1.02 M");  // 1000 x 4096 / 4 + 1000 biases
  CHECK(fc8->inputs.size() == 3);
  const auto norm = reports::explain(*plan, "splits.norm1.a");
  REQUIRE(norm.ok());
  CHECK(norm->value == "divided by samples, over 4 ranks");
  CHECK(norm->inputs.size() == 2);     // it sums over channels: nothing else is possible
  CHECK(reports::explain(*plan, "splits.fc9").problems().front().expected.find("fc8") !=
        std::string::npos);
  planner::Plan lying = *plan;         // a plan from elsewhere
  lying.chosen->strategy.split = 17;
  CHECK_FALSE(reports::explain(lying, "splits.fc8").ok());
}
