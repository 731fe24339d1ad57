#include <algorithm>

#include "core/csv.hpp"
#include "core/json.hpp"
#include "reports/subjects_comparison.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

namespace {

using namespace reports;
using reports_test::has;
using reports_test::sample_plan;
using reports_test::sample_run;

std::optional<double> value(const Subject& s, std::string_view key) {
  for (const Figure& f : figures())
    if (f.key == key) return f.value(s);
  FAIL("no figure " << key);
  return {};
}

}  // namespace

TEST_CASE("a chosen candidate and its run give their figures") {
  const Subject plan = chosen_of(sample_plan(), "plan.json");
  CHECK(value(plan, "step_seconds") == 1.5);
  CHECK(value(plan, "device_bytes") == 23.0 * (1 << 30));
  CHECK(value(plan, "wire_bytes_per_rank") == 150.0);
  CHECK_FALSE(value(plan, "measured_step_seconds"));
  CHECK_FALSE(value(plan, "cost_usd"));  // no --tokens
  const Subject run = run_of(sample_run(), "run.json");
  CHECK(value(run, "measured_step_seconds") == 1.2);
  // (1.5 - 1.2) / 1.2
  CHECK(*value(run, "step_relative_error") == Approx(0.25));
  CHECK(value(run, "measured_live_bytes") == 21.0 * (1 << 30));
}

TEST_CASE("what has no strategy is empty in every figure, and says why") {
  planner::Plan plan = sample_plan();
  plan.chosen.reset();
  const Subject none = chosen_of(plan, "p");
  for (const Figure& f : figures()) CHECK_FALSE(f.value(none));
  CHECK(has(subjects_text({none}, {}), "nothing fits: memory"));
}

TEST_CASE("candidates and machines of a plan are each there once") {
  planner::Plan plan = sample_plan();
  plan.pareto = {*plan.chosen, plan.alternatives[0]};
  CHECK(candidates_of(plan).size() == 2);
  const std::vector<Subject> machines = machines_of(plan);
  REQUIRE(machines.size() == 2);
  CHECK(machines[0].gpu == "rtx3090");
  CHECK_FALSE(machines[0].candidate);
  CHECK(machines[1].candidate);
}

TEST_CASE("text, CSV, Markdown and JSON say the same figures") {
  std::vector<Subject> subjects = {chosen_of(sample_plan(), "a, \"b\"|c"),
                                   run_of(sample_run(), "run")};
  const core::Json json = subjects_json(subjects);
  const std::string csv = subjects_csv(subjects);
  const auto table = core::parse_csv(csv, "out.csv");
  REQUIRE(table.ok());
  for (std::size_t i = 0; i < subjects.size(); ++i)
    for (const Figure& f : figures()) {
      const std::optional<double> exact = f.value(subjects[i]);
      const core::Json& said = json.items()[i].at(f.key);
      CHECK(said.is_null() == !exact);
      if (exact) CHECK(said.as_double() == *exact);
    }
  CHECK(csv.starts_with("label,model,gpu,"));
  CHECK(has(csv, "\"a, \"\"b\"\"|c\""));
  const std::string markdown = subjects_markdown(subjects);
  CHECK(has(markdown, "a, \"b\"\\|c"));
  CHECK(has(markdown, "| step | 1.50 s | 1.50 s |"));
  CHECK(has(markdown, "| step, measured | - | 1.20 s |"));
  CHECK(has(subjects_text(subjects, {}), "1.20 s"));
}
