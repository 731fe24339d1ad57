#include "models/spec.hpp"
#include "planner/search.hpp"
#include "reports/html/build_page.hpp"
#include "reports/html/curves.hpp"
#include "reports/html/timeline.hpp"
#include "reports/html/write_page.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

namespace {

using namespace reports::html;
using reports_test::has;

planner::Plan small_plan(const std::vector<std::string>& pins) {
  planner::Request request;
  request.model = models::find_model("gpt2-124m").value();
  request.gpus = 4;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  request.job.seq_len = 64;
  request.job.global_batch = 16;
  for (const std::string& pin : pins) REQUIRE(request.constraints.pin(pin).ok());
  core::Result<planner::Plan> plan = planner::make_plan(request);
  REQUIRE(plan.ok());
  REQUIRE(plan->chosen);
  return std::move(plan).value();
}

}  // namespace

TEST_CASE("a timeline has a compute lane per stage, and lanes do one thing at a time") {
  const auto timeline = timeline_of(small_plan({"pipeline=2", "data=2"}));
  REQUIRE(timeline.ok());
  std::size_t compute = 0;
  for (const Lane& lane : timeline->lanes) compute += lane.stream == "compute" ? 1 : 0;
  CHECK(compute == 2);
  CHECK(timeline->ranks == 4);
  for (std::size_t i = 1; i < timeline->slices.size(); ++i) {
    const Slice& before = timeline->slices[i - 1];
    const Slice& now = timeline->slices[i];
    if (before.lane == now.lane) CHECK(before.start + before.duration <= now.start + 1);
  }
}

TEST_CASE("a checkpoint every K layers is the plan's own figure where the plan has it") {
  const planner::Plan plan = small_plan({"data=4", "checkpoint=every_k", "checkpoint_every=2"});
  const auto curve = checkpoint_curve(plan);
  REQUIRE(curve.ok());
  REQUIRE(curve->points.size() > 3);
  CHECK(curve->points.front().every == 0);
  bool found = false;
  for (const CheckpointPoint& p : curve->points) {
    if (p.every != 2) continue;
    found = true;
    CHECK(p.device == plan.chosen->memory.worst.device);
    CHECK(p.step.value() == Approx(plan.chosen->time.step.value()).epsilon(1e-9));
  }
  CHECK(found);
}

TEST_CASE("the scaling curve holds the plan itself") {
  const planner::Plan plan = small_plan({"data=4"});
  const auto curve = scaling_curve(plan);
  REQUIRE(curve.ok());
  bool found = false;
  for (const planner::ScalePoint& p : *curve) found = found || p.gpus == plan.gpus;
  CHECK(found);
  CHECK(curve->front().efficiency == Approx(1.0));
}

TEST_CASE("a page of a plan and its run has every part, and a plan without an answer says so") {
  planner::Plan plan = reports_test::sample_plan();
  std::vector<Document> documents;
  for (const std::string& text : {planner::to_json_text(plan),
                                  exec::to_json_text(reports_test::sample_run())}) {
    auto document = parse_document(text, documents.empty() ? "plan.json" : "run.json");
    REQUIRE(document.ok());
    document->index = documents.size();
    documents.push_back(std::move(document).value());
  }
  const auto page = build_page(documents, "planner", [](const std::string&) {});
  REQUIRE(page.ok());
  const std::string text = to_markdown(*page);
  for (const char* title : {"Recommendation", "Candidates", "Memory per GPU", "Timeline of a step",
                            "Communication of a step", "Scaling", "Checkpoints every K layers",
                            "Assumptions and sources", "Predicted (plan.json) beside measured"})
    CHECK(has(text, title));
  plan.chosen.reset();
  auto none = parse_document(planner::to_json_text(plan), "none.json");
  REQUIRE(none.ok());
  std::vector<Document> one;
  one.push_back(std::move(none).value());
  const auto empty = build_page(one, "planner", [](const std::string&) {});
  REQUIRE(empty.ok());
  CHECK(has(to_markdown(*empty), "No answer: no feasible strategy"));
}
