// `explain memory.TERM --plan`: lines that sum to the figure, and `explain why-not`.
#include "reports/memory_breakdown.hpp"

#include <algorithm>

#include "models/zoo.hpp"
#include "planner/search/search.hpp"
#include "reports/explanation.hpp"
#include "reports/why_not.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports;

namespace {

planner::Plan planned(const std::string& model, std::int64_t gpus,
                      const std::vector<std::string>& pins, planner::Job job = {},
                      const std::string& gpu = "h100-sxm-80g") {
  planner::Request request;
  request.model = models::find_model(model).value();
  request.gpus = gpus;
  request.profile = hw_profiles::find_profile(gpu).value();
  request.job = std::move(job);
  request.top = 1;
  request.fewer = false;
  for (const std::string& pin : pins) REQUIRE(request.constraints.pin(pin).ok());
  auto plan = planner::make_plan(request);
  REQUIRE(plan.ok());
  REQUIRE(plan->chosen);
  return std::move(plan).value();
}

planner::Job small_job() {
  planner::Job job;
  job.seq_len = 64;
  job.global_batch = 16;
  return job;
}

core::Bytes sum_of(const Breakdown& b) {
  core::Bytes sum{};
  for (const BreakdownLine& line : b.lines) sum += line.bytes;
  return sum;
}

}  // namespace

TEST_CASE("the lines of every memory term sum to the plan's figure, whatever the strategy") {
  const std::vector<std::vector<std::string>> strategies{
      {"data=4"},
      {"zero=3", "ac=full"},
      {"tp=2", "sp=true", "zero=1"},
      {"pp=2", "schedule=1f1b", "ac=selective"},
      {"pp=4", "schedule=zb_v"},
      {"pp=2", "schedule=pipedream_2bw"},
      {"pp=2", "schedule=interleaved", "vpp=2"},
      {"offload=optimizer", "zero=2"},
      {"offload=params,activations", "zero=3", "ac=full"}};
  for (const auto& pins : strategies) {
    INFO(Catch::Detail::stringify(pins));
    const planner::Plan plan = planned("gpt2-124m", 4, pins, small_job());
    const planner::MemoryTerms& m = plan.chosen->memory.worst;
    const std::vector<std::pair<std::string, core::Bytes>> figures{
        {"weights", m.terms[0]}, {"gradients", m.terms[1]}, {"optimizer", m.terms[2]},
        {"activations", m.terms[3]}, {"logits", m.terms[4]}, {"communication", m.terms[5]},
        {"live", m.live}, {"reserved", m.reserved}, {"device", m.device}, {"host", m.host}};
    for (const auto& [term, figure] : figures) {
      INFO(term);
      const auto found = memory_breakdown(plan, "memory." + term);
      REQUIRE(found.ok());
      REQUIRE(found->has_value());
      CHECK((*found)->sum == figure);
      CHECK(sum_of(**found) == figure);
    }
  }
}

TEST_CASE("activations are told by buffer, with the moment of the peak") {
  const planner::Plan plan = planned("gpt2-124m", 1, {"ac=none", "mbs=2"}, small_job());
  const auto found = memory_breakdown(plan, "memory.activations");
  REQUIRE(found.ok());
  const Breakdown& b = **found;
  CHECK(b.lines.size() > 5);
  CHECK(reports_test::has(b.when, "rank 0, when its live memory is first greatest"));
  // Each of 12 layers keeps the input of the feed-forward's second product:
  // 2 samples x 64 tokens x 3072 in bf16.
  const bool kept = std::ranges::any_of(b.lines, [](const BreakdownLine& line) {
    return line.bytes == core::Bytes(12LL * 2 * 64 * 3072 * 2);
  });
  CHECK(kept);
  const auto explained = explain(plan, "memory.activations");
  REQUIRE(explained.ok());
  CHECK(explained->parts.has_value());
  CHECK(reports_test::has(explanation_text(*explained), "sum"));
  CHECK_FALSE(explain(plan, "time.step")->parts.has_value());
}

TEST_CASE("a plan whose bytes this planner counts otherwise is not taken apart") {
  planner::Plan plan = planned("gpt2-124m", 1, {}, small_job());
  plan.chosen->memory.worst.terms[3] += core::Bytes(1);
  CHECK_FALSE(memory_breakdown(plan, "memory.activations").ok());
  const auto explained = explain(plan, "memory.activations");
  REQUIRE(explained.ok());
  CHECK_FALSE(explained->parts);
  CHECK(reports_test::has(explanation_text(*explained), "plan again"));
}

TEST_CASE("why-not tells the best plan with a pin beside the chosen one") {
  const auto answer = why_not(planned("gpt2-124m", 4, {}, small_job()), {"tp=4"});
  REQUIRE(answer.ok());
  CHECK(answer->pins == std::vector<std::string>{"tensor=4"});
  REQUIRE(answer->nearest);
  CHECK(answer->nearest->strategy.tensor == 4);
  CHECK(answer->nearest->time.step > answer->chosen.time.step);
  CHECK(reports_test::has(why_not_text(*answer, {}), "The best plan with tensor=4 is "));
  // The plan's own pin holds on, but where the question names its key.
  const planner::Plan plan = planned("gpt2-124m", 4, {"zero=1"}, small_job());
  const auto other = why_not(plan, {"data=2"});
  REQUIRE((other.ok() && other->nearest));
  CHECK(other->nearest->strategy.sharding == planner::Sharding::zero1);
  const auto unsharded = why_not(plan, {"zero=0"});
  REQUIRE((unsharded.ok() && unsharded->nearest));
  CHECK(unsharded->nearest->strategy.sharding == planner::Sharding::none);
}

TEST_CASE("why-not says why there is none, and what the plan has already") {
  const planner::Plan plan = planned("gpt2-1.5b", 4, {}, {}, "rtx3090");
  const auto none = why_not(plan, {"data=4", "tp=1", "zero=0", "offload=none"});
  REQUIRE(none.ok());
  CHECK_FALSE(none->nearest);
  CHECK(reports_test::has(why_not_text(*none, {}), "fits: "));
  const auto same = why_not(plan, {"data=" + std::to_string(plan.chosen->strategy.data)});
  REQUIRE((same.ok() && same->nearest));
  CHECK(reports_test::has(why_not_text(*same, {}), "The chosen plan has data="));
  CHECK_FALSE(why_not(plan, {"tensr=2"}).ok());
}
