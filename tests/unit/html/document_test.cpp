#include "reports/html/document.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

namespace {

using namespace reports::html;
using reports_test::has;

std::string problems_of(const std::string& text) {
  const core::Result<Document> document = parse_document(text, "x.json");
  REQUIRE_FALSE(document.ok());
  return core::to_text(document.problems());
}

}  // namespace

TEST_CASE("a file that is none of ours is refused with what was expected") {
  CHECK(has(problems_of("{}"), "plan/1, simulate/1"));
  CHECK(has(problems_of("[1]"), "x.json:1:1"));
  CHECK(has(problems_of(R"({"schema": 3})"), "found 3"));
  CHECK(has(problems_of(R"({"schema": "recipe/1"})"), "recipe/1"));
  CHECK(has(problems_of("{\"schema\": \"plan/1\""), "x.json"));
}

TEST_CASE("a newer version of a schema is named as that") {
  for (const char* text : {R"({"schema": "plan/2"})", R"({"schema": "compare/1.1"})",
                           R"({"schema": "run"})"}) {
    const std::string problems = problems_of(text);
    CHECK(has(problems, "another version of planner"));
    CHECK(has(problems, "/schema"));
  }
}

TEST_CASE("numbers that are none are refused with their place") {
  const std::string head = R"({"schema": "compare/1", "terms": [{"term": "time.step",)";
  CHECK(has(problems_of(head + R"("predicted": NaN}]})"), "x.json:1:"));
  CHECK(has(problems_of(head + R"("predicted": 1e999}]})"), "x.json:1:"));
  CHECK(has(problems_of(head + R"("predicted": "7"}]})"), "/terms/0/predicted"));
}

TEST_CASE("missing parts are refused with their place, all of them at once") {
  const std::string problems = problems_of(R"({"schema": "simulate/1"})");
  for (const char* part : {"strategy", "time", "memory", "streams", "critical_path"})
    CHECK(has(problems, part));
  CHECK(has(problems_of(R"({"schema": "validate/1"})"), "per_row"));
  CHECK(has(problems_of(R"({"schema": "sweep/1"})"), "points"));
  CHECK(has(problems_of(R"({"schema": "compare/1", "terms": [{}]})"), "/terms/0"));
}

TEST_CASE("a cell says what its file says, exactly and as people read it") {
  const core::Result<Document> d =
      parse_document(planner::to_json_text(reports_test::sample_plan()), "plan.json");
  REQUIRE(d.ok());
  CHECK(d->kind == DocumentKind::plan);
  const Cell step = cell(*d, "/chosen/time/step", Unit::seconds);
  CHECK(step.text == "1.50 s");
  CHECK(step.value == core::Json(1.5));
  CHECK(step.source == "0/chosen/time/step");
  CHECK(cell(*d, "/chosen/memory/device", Unit::bytes).text == "23.0 GiB");
  CHECK(cell(*d, "/chosen/throughput/mfu", Unit::fraction).text == "25.0 %");
  CHECK(cell(*d, "/training/seconds", Unit::seconds).text == "-");
  CHECK(cell(*d, "/nowhere/at/all", Unit::seconds).source.empty());
  CHECK(cell(*d, "/alternatives/0/time/step", Unit::seconds).text == "1.80 s");
  CHECK(cell(*d, "/alternatives/7/time/step", Unit::seconds).text == "-");
}

TEST_CASE("money and energy are printed as people say them") {
  const auto text = [](double value, Unit unit) { return shown(core::Json(value), unit); };
  CHECK(text(0.0036, Unit::money) == "0.0036");
  CHECK(text(64.56, Unit::money) == "64.56");
  CHECK(text(4131.84, Unit::money) == "4,132");
  CHECK(text(712'901.4, Unit::money) == "712,901");
  CHECK(text(12.34e6, Unit::money) == "12.3 M");
  CHECK(text(3.6e3, Unit::energy) == "1 Wh");
  CHECK(text(5.1e9, Unit::energy) == "1.42 MWh");  // 5.1e9 / 3.6e9
}
