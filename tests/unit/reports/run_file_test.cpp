#include "core/json.hpp"
#include "exec/record/run_record.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using reports_test::has;
using reports_test::sample_run;

TEST_CASE("a run record comes back from its file as it was") {
  const std::string text = exec::to_json_text(sample_run());
  const core::Result<exec::RunRecord> read = exec::parse_run(text, "run.json");
  REQUIRE(read.ok());
  CHECK(exec::to_json_text(*read) == text);
  CHECK(read->memory.live == core::gib(21));
  CHECK_FALSE(read->memory.device);
  CHECK(read->loss == std::vector{10.5, 10.25});
}

TEST_CASE("a run's file has the learning rate of each step, and an older file has none") {
  exec::RunRecord run = sample_run();
  run.training->warmup_steps = 4;
  run.training->decay = exec::Decay::linear;
  run.training->decay_steps = 100;
  run.training->learning_rate_end = 1e-5;
  const std::string text = exec::to_json_text(run);
  const core::Json file = core::parse_json(text, "run.json").value();
  REQUIRE(file.find("learning_rate")->items().size() == 2);
  CHECK(file.find("learning_rate")->items()[1].as_double() == 0.0005);
  const exec::RunRecord read = exec::parse_run(text, "run.json").value();
  CHECK(exec::to_json_text(read) == text);
  CHECK(read.training->rate_at(99) == run.training->rate_at(99));
  run.training.reset();
  CHECK_FALSE(exec::parse_run(exec::to_json_text(run), "run.json").value().training);
}

TEST_CASE("what NCCL ran comes back from a run's file, and an older file has none") {
  exec::RunRecord run = reports_test::sample_run();
  run.communication[0].library = {{"nvls", "simple", 16, 7, core::Bytes(100), core::Bytes(10),
                                   core::Bytes(20)}};
  run.memory.message_blocks = core::Bytes(4096);
  std::string text = exec::to_json_text(run);
  CHECK(exec::parse_run(text, "run.json").value().memory.message_blocks == core::Bytes(4096));
  CHECK(exec::parse_run(text, "run.json").value().communication[0].library ==
        run.communication[0].library);
  run.communication[0].library.clear();
  text = exec::to_json_text(run);
  const std::size_t at = text.find("\"library\": []");
  REQUIRE(at != std::string::npos);
  text.replace(at, 13, "\"library\": null");
  CHECK(exec::parse_run(text, "run.json").value().communication[0].library.empty());
}

TEST_CASE("a run that was scaled down holds what was planned") {
  exec::RunRecord run = sample_run();
  run.scaled_from = exec::ScaledFrom{run.model, run.job, run.candidate.strategy,
                                     {{"sequence length", 1024, 128}}};
  run.job.seq_len = 128;
  const std::string text = exec::to_json_text(run);
  const core::Result<exec::RunRecord> read = exec::parse_run(text, "run.json");
  REQUIRE(read.ok());
  REQUIRE(read->scaled_from);
  CHECK(read->scaled_from->job.seq_len == 1024);
  CHECK(read->scaled_from->model == run.model);
  CHECK(read->scaled_from->figures.front().planned == 1024);
  CHECK(exec::to_json_text(*read) == text);
}

TEST_CASE("a damaged run record names every problem with its place") {
  std::string text = exec::to_json_text(sample_run());
  text.replace(text.find("\"backend\": \"cuda\"") + 11, 6, std::string("7"));
  text.replace(text.find("\"ranks\": 8"), 10, std::string("\"ranks\": 0"));
  const core::Result<exec::RunRecord> read = exec::parse_run(text, "run.json");
  REQUIRE_FALSE(read.ok());
  const std::string problems = core::to_text(read.problems());
  CHECK(has(problems, "/backend"));
  CHECK(has(problems, "/ranks"));
  CHECK(has(problems, "run.json:"));
}

TEST_CASE("a plan is not taken for a run") {
  const core::Result<exec::RunRecord> read =
      exec::parse_run(planner::to_json_text(reports_test::sample_plan()), "plan.json");
  REQUIRE_FALSE(read.ok());
  CHECK(has(core::to_text(read.problems()), "run/1"));
}
