#include <algorithm>
#include <array>
#include <set>

#include "reports/explanation.hpp"
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
}

TEST_CASE("every input of every formula is a field of a plan") {
  const planner::Plan plan = sample_plan();
  for (const Formula& f : formulas()) {
    if (f.field.find('*') != std::string_view::npos) continue;
    const Explanation e = explain(plan, f.field).value();
    INFO(f.field);
    const auto blanks = std::ranges::count(f.inputs, ' ');
    CHECK(static_cast<std::ptrdiff_t>(e.inputs.size()) == blanks + 1);
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
