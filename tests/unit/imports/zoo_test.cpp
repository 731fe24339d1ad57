// Every model that Megatron-LM can be asked for comes back from its sizes.
#include <fmt/format.h>

#include "models/zoo.hpp"
#include "reports/emit/emit.hpp"
#include "tests/unit/imports/imported.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace imports_test;

TEST_CASE("each model that is emitted for Megatron-LM is found again by its sizes") {
  int emitted = 0;
  for (const models::ZooEntry& entry : models::zoo()) {
    planner::Plan plan = reports_test::sample_plan();
    plan.model = entry.spec;
    plan.job.seq_len = entry.spec.default_seq_len;
    planner::Strategy& s = plan.chosen->strategy;
    s.sequence_parallel = true;
    s.tensor = 1;
    s.data = s.shard_group = 8;
    s.micro_batch = 8;
    s.grad_accum = 8;
    s.stages = {models::layers_of(entry.spec)};
    const auto launch = reports::emit::launch_of(plan, *plan.chosen, "megatron");
    if (!launch.ok()) continue;
    ++emitted;
    INFO(entry.spec.name);
    const Setup setup = imported(launch->text.text());
    // Two models may have the same sizes: the note names them all.
    const bool named = setup.model == entry.spec.name ||
                       std::ranges::any_of(setup.notes, [&](const std::string& note) {
                         return note.find(entry.spec.name) != std::string::npos;
                       });
    CHECK(named);
    CHECK_FALSE(setup.spec.has_value());
    const auto found = models::find_model(setup.model);
    REQUIRE(found.ok());
    CHECK(found->vocab == entry.spec.vocab);
    CHECK(found->ffn_hidden == entry.spec.ffn_hidden);
    CHECK(option(setup, "--seq") == fmt::format("{}", entry.spec.default_seq_len));
  }
  CHECK(emitted > 47);
}
