#include "reports/comparison.hpp"

#include <algorithm>

#include "core/csv.hpp"
#include "core/json.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports;
using reports_test::has;
using reports_test::sample_plan;
using reports_test::sample_run;

namespace {

ComparedTerm term(const Comparison& comparison, std::string_view name) {
  const auto it = std::ranges::find(comparison.terms, name, &ComparedTerm::term);
  REQUIRE(it != comparison.terms.end());
  return *it;
}

std::string problems_of(const planner::Plan& plan, const exec::RunRecord& run) {
  const core::Result<Comparison> comparison = compare(plan, run, "run.json");
  REQUIRE_FALSE(comparison.ok());
  return core::to_text(comparison.problems());
}

}  // namespace

TEST_CASE("the relative error is (predicted - measured) / measured") {
  const Comparison c = compare(sample_plan(), sample_run(), "run.json").value();
  // (1.5 - 1.2) / 1.2 = 0.25; (0.25 - 0.125) / 0.125 = 1
  CHECK(*term(c, "time.step").relative_error() == Approx(0.25));
  CHECK(*term(c, "communication.gradients.all_reduce.seconds").relative_error() == Approx(1.0));
  CHECK(*term(c, "memory.live").relative_error() == 0.0);
}

TEST_CASE("the relative error is unknown where a side is unknown or the measured value is 0") {
  CHECK_FALSE(ComparedTerm{"t", TermUnit::bytes, 5.0, 0.0}.relative_error());
  CHECK_FALSE(ComparedTerm{"t", TermUnit::bytes, 5.0, std::nullopt}.relative_error());
  CHECK_FALSE(ComparedTerm{"t", TermUnit::bytes, std::nullopt, 5.0}.relative_error());
}

TEST_CASE("times of other hardware than planned are shown, and have no error") {
  exec::RunRecord run = sample_run();
  run.backend = "host";
  run.device = "8 threads on 2 cores of a test";
  const Comparison c = compare(sample_plan(), run, "run.json").value();
  CHECK(*term(c, "time.step").measured == 1.2);
  CHECK_FALSE(term(c, "time.step").relative_error());
  CHECK_FALSE(term(c, "communication.gradients.all_reduce.seconds").relative_error());
  CHECK(*term(c, "memory.live").relative_error() == 0.0);
  REQUIRE(c.other_hardware);
  const std::string why =
      "the run used 8 threads on 2 cores of a test, and the plan is for 8 x H100 SXM5 80GB";
  CHECK(to_text(*c.other_hardware) == why);
  CHECK(has(comparison_text(c, {}), "1.20 s  not comparable\n"));
  CHECK(has(comparison_text(c, {.width = 200}), "Times are not comparable: " + why + ".\n"));
  CHECK(has(comparisons_markdown({c}), "| time.step | 1.50 s | 1.20 s | not comparable |"));
  const core::Json json = core::parse_json(to_json_text({c}), "c").value();
  CHECK(json.at("other_hardware").at("planned_for").as_string() == "8 x H100 SXM5 80GB");
  const Comparison same = compare(sample_plan(), sample_run(), "run.json").value();
  CHECK(core::parse_json(to_json_text({same}), "c").value().at("other_hardware").is_null());
}

TEST_CASE("a run that was scaled down is compared with the small job's own prediction") {
  const planner::Plan plan = sample_plan();
  exec::RunRecord run = sample_run();
  run.scaled_from = exec::ScaledFrom{plan.model, plan.job, plan.chosen->strategy,
                                     {{"layers", 12, 2}}};
  run.model.layers = 2;
  run.job.global_batch = 8;
  run.candidate.strategy.micro_batch = 1;
  run.candidate.memory.worst.live = core::gib(2);
  run.memory.live = core::gib(2);
  const Comparison c = compare(plan, run, "run.json").value();
  CHECK(term(c, "memory.live").predicted == static_cast<double>(core::gib(2).value()));
  CHECK_FALSE(term(c, "memory.live").differs());
  CHECK(has(comparison_text(c, {}),
            "Predicted and measured are both of the scaled-down job: layers 12 -> 2\n"));
  const core::Json json = core::parse_json(to_json_text({c}), "c").value();
  CHECK(json.at("scaled_down").items()[0].at("run").as_int64() == 2);
  run.scaled_from->strategy.sharding = planner::Sharding::none;
  CHECK(has(problems_of(plan, run), "sharding=none"));
}

TEST_CASE("a run is on the planned hardware where backend, product and ranks of a GPU say so") {
  exec::RunRecord gpu = sample_run();
  CHECK_FALSE(other_hardware(gpu));
  gpu.environment["compute_capability"] = "9.0";
  CHECK_FALSE(other_hardware(gpu));
  gpu.device = "NVIDIA H200";
  CHECK(other_hardware(gpu));
  gpu = sample_run();
  gpu.environment["ranks_per_gpu"] = "8";
  CHECK(other_hardware(gpu)->run_on == "8 ranks that share one NVIDIA H100 80GB HBM3");
  exec::RunRecord host = sample_run();
  host.profile = hw_profiles::find_profile("host").value();
  CHECK(other_hardware(host));
  host.backend = "host";
  CHECK_FALSE(other_hardware(host));
}

TEST_CASE("one byte more is a difference, any time is none") {
  exec::RunRecord run = sample_run();
  run.memory.live = core::Bytes{core::gib(21).value() + 1};
  const Comparison c = compare(sample_plan(), run, "run.json").value();
  CHECK(term(c, "memory.live").differs());
  CHECK_FALSE(term(c, "memory.weights").differs());
  CHECK_FALSE(term(c, "time.step").differs());
}

TEST_CASE("an entry of one side alone stands beside nothing and differs") {
  exec::RunRecord run = sample_run();
  run.communication[0].what = "parameters";
  const Comparison c = compare(sample_plan(), run, "run.json").value();
  const ComparedTerm planned = term(c, "communication.gradients.all_reduce.wire_bytes_per_rank");
  CHECK(planned.predicted == 150.0);
  CHECK_FALSE(planned.measured);
  CHECK(planned.differs());
  const ComparedTerm extra = term(c, "communication.parameters.all_reduce.wire_bytes_per_rank");
  CHECK_FALSE(extra.predicted);
  CHECK(extra.measured == 150.0);
  CHECK(extra.differs());
}

TEST_CASE("entries of like purpose and collective are summed") {
  planner::Plan plan = sample_plan();
  plan.chosen->communication.push_back({"gradients", "all_reduce", "tree", 2, 1, core::Bytes{10},
                                        core::Bytes{20}, core::Seconds{0.5}});
  const Comparison c = compare(plan, sample_run(), "run.json").value();
  CHECK(term(c, "communication.gradients.all_reduce.count").predicted == 8.0);  // 7 + 1
  CHECK(term(c, "communication.gradients.all_reduce.wire_bytes_per_rank").predicted == 170.0);
}

TEST_CASE("what NCCL ran stands beside what the plan assumes, and differences are said in words") {
  planner::Plan plan = sample_plan();
  exec::RunRecord run = sample_run();
  const auto calls = [](const char* algorithm, const char* protocol, int channels,
                        std::int64_t count) {
    return program::LibraryCalls{algorithm, protocol, channels, count, core::Bytes(10 * count),
                                 core::Bytes(10), core::Bytes(10)};
  };
  plan.chosen->communication[0].library = {calls("ring", "ll", 24, 3),
                                           calls("ring", "simple", 24, 4)};
  // A run that was told nothing has no such terms.
  const Comparison silent = compare(plan, run, "run.json").value();
  CHECK(std::ranges::none_of(silent.terms,
                             [](const ComparedTerm& t) { return has(t.term, ".nccl."); }));
  run.communication[0].library = {calls("ring", "ll", 24, 5), calls("tree", "ll", 2, 2)};
  const Comparison c = compare(plan, run, "run.json").value();
  const std::string key = "communication.gradients.all_reduce.nccl.";
  CHECK_FALSE(term(c, key + "count").differs());  // 3 + 4 and 5 + 2 calls
  CHECK_FALSE(term(c, key + "count").assumed);
  CHECK(term(c, key + "payload_bytes").measured == 70.0);
  CHECK(term(c, key + "ring.count").predicted == 7.0);
  CHECK(term(c, key + "ring.count").measured == 5.0);
  CHECK(term(c, key + "tree.count").predicted == 0.0);
  CHECK(term(c, key + "tree.count").measured == 2.0);
  CHECK(term(c, key + "ll.count").measured == 7.0);
  CHECK(term(c, key + "simple.count").measured == 0.0);
  CHECK(term(c, key + "channels").predicted == 24.0);
  // Counts and bytes are promised; which of NCCL's ways they go is assumed.
  CHECK(equal_terms(c).all == equal_terms(silent).all + 2);
  CHECK(equal_terms(c).equal == equal_terms(silent).equal + 2);
  const std::string words =
      "gradients.all_reduce: expected NCCL to run 3 calls by ring, ll, 24 channels; 4 calls by "
      "ring, simple, 24 channels; it ran 5 calls by ring, ll, 24 channels; 2 calls by tree, ll, 2 "
      "channels.";
  REQUIRE(c.library.size() == 1);
  CHECK(c.library[0] == words);
  CHECK(has(comparison_text(c, {.width = 300}), words + "\n"));
  CHECK(has(comparison_text(c, {}), "other choice"));
  CHECK(has(comparisons_markdown({c}), words));
  CHECK(core::parse_json(to_json_text({c}), "c").value().at("library").items().size() == 1);
  run.communication[0].library = plan.chosen->communication[0].library;
  CHECK(compare(plan, run, "run.json").value().library.empty());
}

TEST_CASE("one call less of NCCL than planned is a difference") {
  planner::Plan plan = sample_plan();
  exec::RunRecord run = sample_run();
  plan.chosen->communication[0].library = {
      {"ring", "ll", 2, 7, core::Bytes(70), core::Bytes(10), core::Bytes(10)}};
  run.communication[0].library = {
      {"ring", "ll", 2, 6, core::Bytes(60), core::Bytes(10), core::Bytes(10)}};
  const Comparison c = compare(plan, run, "run.json").value();
  CHECK(term(c, "communication.gradients.all_reduce.nccl.count").differs());
  CHECK(equal_terms(c).equal == equal_terms(c).all - 2);
}

TEST_CASE("blocks of messages are shown where a run had some, and count neither way") {
  exec::RunRecord run = sample_run();
  run.memory.message_blocks = core::Bytes(0);
  const EqualTerms without = equal_terms(compare(sample_plan(), run, "run.json").value());
  run.memory.message_blocks = core::Bytes(4096);
  const Comparison c = compare(sample_plan(), run, "run.json").value();
  CHECK(term(c, "memory.message_blocks").measured == 4096.0);
  CHECK_FALSE(term(c, "memory.message_blocks").predicted);
  CHECK(equal_terms(c).all == without.all);
  CHECK(equal_terms(c).equal == without.equal);
  CHECK(has(comparisons_markdown({c}), "| memory.message_blocks | - | 4096 | - |"));
}

TEST_CASE("what the device did not measure is left out or null, never 0") {
  exec::RunRecord run = sample_run();
  run.memory.terms[0].reset();
  const Comparison c = compare(sample_plan(), run, "run.json").value();
  CHECK_FALSE(term(c, "memory.weights").measured);
  CHECK(std::ranges::find(c.terms, "memory.device", &ComparedTerm::term) == c.terms.end());
  const core::Json json = core::parse_json(to_json_text(std::vector{c}), "c").value();
  CHECK(json.at("terms").items()[0].at("measured").is_null());
  CHECK(json.at("terms").items()[0].at("predicted").as_int64() == 1LL << 30);
}

TEST_CASE("a run of another question is refused with what differs") {
  exec::RunRecord other_strategy = sample_run();
  other_strategy.candidate.strategy.sharding = planner::Sharding::none;
  CHECK(has(problems_of(sample_plan(), other_strategy), "sharding=zero1"));
  CHECK(has(problems_of(sample_plan(), other_strategy), "sharding=none"));

  exec::RunRecord other_model = sample_run();
  other_model.model = models::find_model("gpt2-355m").value();
  CHECK(has(problems_of(sample_plan(), other_model), "gpt2-355m"));

  exec::RunRecord other_rank = sample_run();
  other_rank.memory.rank = 3;
  CHECK(has(problems_of(sample_plan(), other_rank), "rank 3"));
}

TEST_CASE("a run of an alternative is compared with that alternative") {
  exec::RunRecord run = sample_run();
  run.candidate = sample_plan().alternatives[0];
  const Comparison c = compare(sample_plan(), run, "run.json").value();
  CHECK(term(c, "time.step").predicted == 1.8);
}

TEST_CASE("terms as CSV are exact, a line each; as Markdown they say what the text says") {
  exec::RunRecord run = sample_run();
  run.communication[0].what = "parameters";
  const Comparison c = compare(sample_plan(), run, "a,b|c.json").value();
  const auto csv = core::parse_csv(comparisons_csv({c, c}), "terms.csv");
  REQUIRE(csv.ok());
  REQUIRE(csv->size() == 2 * c.terms.size());
  std::size_t i = 0;
  for (const core::CsvRow& row : csv->rows()) {
    const ComparedTerm& t = c.terms[i++ % c.terms.size()];
    CHECK(row.text("run") == "a,b|c.json");
    CHECK(row.text("term") == t.term);
    CHECK(row.has("predicted") == t.predicted.has_value());
    CHECK(row.has("measured") == t.measured.has_value());
    double read = 0;
    core::Problems problems;
    if (t.measured && row.optional("measured", read, core::NumberRange{}, problems))
      CHECK(read == *t.measured);
    CHECK(problems.empty());
  }
  const std::string markdown = comparisons_markdown({c});
  CHECK(has(markdown, "## a,b\\|c.json\n"));
  CHECK(has(markdown, "| time.step | 1.50 s | 1.20 s | +25.0 % |"));
  CHECK(markdown.ends_with("bytes and counts are equal\n"));
}

TEST_CASE("several runs keep the terms of the first and list each") {
  const Comparison c = compare(sample_plan(), sample_run(), "a.json").value();
  const core::Json one = core::parse_json(to_json_text({c}), "c").value();
  CHECK(one.find("runs") == nullptr);
  const core::Json two = core::parse_json(to_json_text({c, c}), "c").value();
  CHECK(two.at("runs").size() == 2);
  CHECK(two.at("terms") == one.at("terms"));
}
