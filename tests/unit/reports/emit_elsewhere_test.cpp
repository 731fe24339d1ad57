// A launch file for another framework than the plan's: what it takes there is predicted.
#include "reports/emit/elsewhere.hpp"
#include "tests/unit/reports/emitted.hpp"

using namespace planner;
using namespace reports_test;

static std::optional<std::string> note_of(std::string_view framework, const Change& change) {
  Plan plan = sample_plan();
  plan.model = models::find_model("llama3-8b").value();
  Candidate c = *plan.chosen;
  fully_sharded(plan, c.strategy);
  c.strategy.stages = {32};
  c.strategy.micro_batch = 1;
  c.strategy.grad_accum = 64;
  change(plan, c.strategy);
  return reports::emit::predicted_elsewhere(plan, c, framework);
}

TEST_CASE("a plan written for another framework says what it takes there") {
  const auto native = note_of("torchtitan", [](Plan&, Strategy&) {});
  REQUIRE(native);
  INFO(*native);
  CHECK(has(*native, "made for --framework native, where a step takes 1.50 s and a GPU needs 23"));
  CHECK(has(*native, "in fsdp2 a step is predicted to take "));
  CHECK(has(*native, "planner --framework fsdp2 plans for it"));
}

TEST_CASE("a plan that another framework has no memory for says so") {
  const auto full = note_of("axolotl", [](Plan& plan, Strategy& s) {
    plan.job.seq_len = 8'192;
    s.micro_batch = 8;
    s.grad_accum = 8;
  });
  REQUIRE(full);
  INFO(*full);
  CHECK(has(*full, "in trainer it needs "));
  CHECK(has(*full, "run out of memory"));
}

TEST_CASE("the note is the first of a launch file, with a launcher and without") {
  const auto launch = emitted("llama3-8b", "torchtitan", fully_sharded);
  REQUIRE(launch.ok());
  CHECK(has(launch->notes.front(), "made for --framework native"));
  Plan plan = sample_plan();
  plan.model = models::find_model("llama3-8b").value();
  Candidate c = *plan.chosen;
  fully_sharded(plan, c.strategy);
  const auto started = reports::emit::launcher_of(plan, c, "torchtitan", "slurm", {});
  REQUIRE(started.ok());
  CHECK(has(started->notes.front(), "made for --framework native"));
}

TEST_CASE("a plan written for its own framework is not predicted again") {
  const auto of = [](const char* framework) {
    return [=](Plan& plan, Strategy&) { plan.job.framework = framework; };
  };
  CHECK_FALSE(note_of("torchtitan", of("fsdp2")));
  CHECK_FALSE(note_of("megatron_bridge", of("megatron_core")));
  CHECK_FALSE(note_of("megatron", of("megatron")));
  CHECK_FALSE(note_of("llama_factory", of("trainer")));
  CHECK_FALSE(note_of("slurm", of("native")));
  CHECK(note_of("slurm", of("fsdp2")));
}
