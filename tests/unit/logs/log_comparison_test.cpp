#include "reports/logs/log_comparison.hpp"

#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports::logs;
using core::Seconds;

namespace {

std::vector<Seconds> seconds(std::initializer_list<double> values) {
  std::vector<Seconds> all;
  for (const double value : values) all.emplace_back(value);
  return all;
}
TrainingLog log_of(Rate rate, std::initializer_list<double> values) {
  TrainingLog log;
  log.format = "a framework";
  log.source = "a file";
  log.rate = rate;
  int line = 0;
  for (const double value : values) log.steps.push_back({++line, value});
  return log;
}

}  // namespace

TEST_CASE("the first step is left out, and slow ones right behind it") {
  // The second half is 1, 1, 1: above 1.1 s a step is not warm.
  const StepSpread spread = spread_of(seconds({9, 1.2, 1.05, 1, 1, 1}));
  CHECK(spread.steps == 6);
  CHECK(spread.left_out == 2);
  CHECK(spread.median == Seconds(1));
  // A slow step later is the run's own.
  CHECK(spread_of(seconds({9, 1, 3, 1, 1, 1})).left_out == 1);
  // Never more than half, and one step stays.
  CHECK(spread_of(seconds({9, 8, 1, 1})).left_out == 2);
  CHECK(spread_of(seconds({9, 9, 9, 1})).left_out == 2);
  CHECK(spread_of(seconds({5})).left_out == 0);
  CHECK(spread_of(seconds({5, 2})).left_out == 1);
}

TEST_CASE("median and tenths are between the nearest steps") {
  // Without the first: 1, 2, ..., 11; a tenth of the way from 1 to 11 is 2.
  const StepSpread spread = spread_of(seconds({4, 5, 4, 6, 7, 8, 9, 10, 11, 3, 1, 2}));
  CHECK(spread.left_out == 1);
  CHECK(spread.median == Seconds(6));
  CHECK(spread.p10 == Seconds(2));
  CHECK(spread.p90 == Seconds(10));
}

TEST_CASE("each rate becomes a step of the plan's job") {
  const planner::Plan plan = reports_test::sample_plan();  // 512 x 1024 tokens on 8 GPUs
  const auto step = [&](Rate rate, double value) {
    return compare_log(plan, log_of(rate, {value}), "x.log")->spread->median.value();
  };
  CHECK(step(Rate::seconds, 1.5) == 1.5);
  CHECK(step(Rate::samples_per_second, 256) == 2);                // 512 / 256
  CHECK(step(Rate::tokens_per_second_per_gpu, 32'768) == 2);      // 524,288 / (8 x 32,768)
}

TEST_CASE("a log stands beside the prediction, its interval and its memory") {
  const planner::Plan plan = reports_test::sample_plan();  // 1.5 s, 1.32 to 1.68
  TrainingLog log = log_of(Rate::seconds, {9, 1.5625, 1.5625, 1.5625});
  log.reserved = core::gib(20);
  log.global_batch = 512;
  const auto compared = compare_log(plan, log, "x\x1b.log");
  REQUIRE(compared.ok());
  CHECK(compared->holds());
  REQUIRE(compared->terms.size() == 3);
  CHECK(compared->terms[0].relative_error() == Approx(-0.04));    // (1.5 - 1.5625) / 1.5625
  CHECK(compared->terms[1].term == "throughput.tokens_per_second");
  CHECK(compared->terms[2].term == "memory.reserved");
  CHECK(compared->terms[2].relative_error() == Approx(0.1));      // 22 GiB against 20
  const std::string text = log_text(*compared, {});
  for (const char* part : {"x\\x1b.log\n", "A log of a framework (a file).", "4 steps",
                           "1 left out", "median 1.56 s", "-4.0 %", "1.32 s to 1.68 s", "within"})
    CHECK((reports_test::has(text, part) ? "" : part) == std::string());
  const core::Json json = log_json(*compared);
  CHECK(json.at("left_out").as_int64() == 1);
  CHECK(json.at("within").as_bool());
  CHECK(json.at("terms").items().size() == 3);
  log.steps = {{1, 2.0}};
  CHECK(reports_test::has(log_text(*compare_log(plan, log, "x"), {}), "is above this interval"));
}

TEST_CASE("a log of another batch, or a plan without a strategy, is refused") {
  planner::Plan plan = reports_test::sample_plan();
  TrainingLog log = log_of(Rate::seconds, {1.5});
  log.global_batch = 64;
  const auto compared = compare_log(plan, log, "x.log");
  REQUIRE_FALSE(compared.ok());
  CHECK(reports_test::has(core::to_text(compared.problems()), "plan with --global-batch 64"));
  plan.chosen.reset();
  CHECK_FALSE(compare_log(plan, log_of(Rate::seconds, {1.5}), "x.log").ok());
}
