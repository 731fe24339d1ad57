#include <utility>

#include "models/spec.hpp"
#include "planner/search/search.hpp"
#include "reports/html/build_page.hpp"
#include "reports/html/curves.hpp"
#include "reports/html/timeline.hpp"
#include "reports/html/write_page.hpp"
#include "reports/plan_headline.hpp"
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

namespace {

// The Markdown of the page of these files, each a name and a text.
std::string page_of_files(const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<Document> documents;
  for (const auto& [name, text] : files) {
    auto document = parse_document(text, name);
    REQUIRE(document.ok());
    document->index = documents.size();
    documents.push_back(std::move(document).value());
  }
  const auto page = build_page(documents, "planner", [](const std::string&) {});
  REQUIRE(page.ok());
  return to_markdown(*page);
}

std::string page_of(const planner::Plan& plan) {
  return page_of_files({{"plan.json", planner::to_json_text(plan)}});
}
std::string page_of(const planner::Plan& plan, const exec::RunRecord& run) {
  return page_of_files({{"plan.json", planner::to_json_text(plan)},
                        {"run.json", exec::to_json_text(run)}});
}

void check_order(const std::string& text, const std::vector<std::string>& parts) {
  std::size_t before = 0;
  for (const std::string& part : parts) {
    INFO(part);
    const std::size_t at = text.find(part, before);
    CHECK(at != std::string::npos);
    if (at != std::string::npos) before = at;
  }
}

}  // namespace

TEST_CASE("a plan's page opens with the verdict, five figures, why, memory and timeline") {
  check_order(page_of(reports_test::sample_plan()),
              {"## Plan plan.json", "### Recommendation", "**Fits.** Train gpt2-124m on 8 x H100",
               "| Time per step | 1.50 s |", "| Throughput | 350 K tokens/s |",
               "| Memory per GPU | 23.0 GiB |", "| Out-of-memory risk |", "| Cost per day |",
               "It is the fastest of", "### Memory per GPU", "### Timeline of a step",
               "### What would change the choice", "### Time of a step", "### Candidates",
               "### Communication of a step",
               "### Scaling", "### Checkpoints every K layers", "### The same job on other",
               "### What was asked", "### Assumptions and sources", "### Search and rejections",
               "### Words"});
}

TEST_CASE("the summary of a plan leaves out what has to be played") {
  auto document = parse_document(planner::to_json_text(reports_test::sample_plan()), "plan.json");
  REQUIRE(document.ok());
  int played = 0;
  const auto page = build_page({*document}, "planner", [&](const std::string& what) {
    played += what == "plan.json" ? 0 : 1;
  }, Extent::summary);
  REQUIRE(page.ok());
  CHECK(played == 0);
  const std::string text = to_markdown(*page);
  check_order(text, {"### Recommendation", "### Time of a step", "### Candidates",
                     "### Assumptions and sources"});
  CHECK_FALSE(has(text, "### Timeline of a step"));
}

TEST_CASE("a plan without an answer says so first") {
  planner::Plan plan = reports_test::sample_plan();
  plan.chosen.reset();
  check_order(page_of(plan),
              {"**Does not fit.** No feasible strategy for gpt2-124m", "### What was asked"});
}

TEST_CASE("a risk above the limit is in the verdict, and one at the limit is not above it") {
  planner::Plan plan = reports_test::sample_plan();
  plan.chosen->uncertainty.out_of_memory = 0.05;
  CHECK(has(page_of(plan), "**Fits.**"));
  CHECK(has(page_of(plan), "within the limit of 5.0 %"));
  plan.chosen->uncertainty.out_of_memory = 0.051;
  const std::string text = page_of(plan);
  CHECK(has(text, "**May not fit.**"));
  CHECK(has(text, "its risk of running out of memory is 5.1 %, above the limit of 5.0 %"));
}

TEST_CASE("the limit of the risk is the one that the plan's file states") {
  planner::Plan plan = reports_test::sample_plan();
  plan.chosen->uncertainty.out_of_memory = 0.2;
  core::Json root = core::parse_json(planner::to_json_text(plan), "plan.json").value();
  root.set("max_risk", 0.25);
  CHECK(has(page_of_files({{"plan.json", core::dump(root)}}), "within the limit of 25.0 %"));
}

TEST_CASE("a cost is money where there is a price, else energy, else GPU hours") {
  planner::Plan plan = reports_test::sample_plan();
  REQUIRE(plan.profile.gpu.price);
  plan.profile.gpu.price = hw_profiles::DollarsPerHour(2.0);
  CHECK(has(page_of(plan), "| Cost per day | 384 USD |"));  // 8 x 24 x 2
  plan.training = cost::Training{1'000'000'000, core::Seconds(3600), 8, {}, {}};
  CHECK(has(page_of(plan), "| GPU hours of 1.00 B tokens | 8 GPU h |"));
  plan.training->energy = cost::Joules(3.6e9);
  CHECK(has(page_of(plan), "| Energy of 1.00 B tokens | 1 MWh |"));
  plan.training->cost = cost::Dollars(16);
  CHECK(has(page_of(plan), "| Cost of 1.00 B tokens | 16.00 USD |"));
}

TEST_CASE("a page gives the reasons that the text gives") {
  planner::Plan plan = reports_test::sample_plan();
  CHECK(has(page_of(plan), "It is the fastest of 8 strategies within the 5.0 % cap on the risk."));
  plan.because = planner::Because::least_memory;
  for (const std::string& reason : reports::reasons_of(plan)) CHECK(has(page_of(plan), reason));
  CHECK(has(page_of(plan),
            "It needs the least memory of 8 strategies that keep everything on the GPUs"));
}

TEST_CASE("a page explains every part of its strategy, and the words of its figures") {
  const planner::Plan plan = small_plan({"data=2", "pipeline=2", "sharding=zero1",
                                         "schedule=1f1b", "checkpoint=every_k",
                                         "checkpoint_every=2", "overlap=false",
                                         "offload=optimizer"});
  const std::string page = page_of(plan);
  // A row for each: the part, then at least a sentence of what it means.
  for (const char* part : {"data=2", "pipeline=2", "1f1b", "zero1", "every_k(2)", "no overlap",
                           "offload optimizer"}) {
    INFO(part);
    CHECK(has(planner::to_text(plan.chosen->strategy), part));
    const std::size_t row = page.find(std::string("| ") + part + " | ");
    REQUIRE(row != std::string::npos);
    CHECK(page.find(". |", row) > row + 30);
    CHECK(page.find(". |", row) < page.find('\n', row));
  }
  for (const char* word : {"| mfu |", "| activations |", "| exposed communication |"})
    CHECK(has(page, word));
}

TEST_CASE("a plan with its run begins with predicted beside measured") {
  planner::Plan plan = reports_test::sample_plan();
  exec::RunRecord run = reports_test::sample_run();
  const std::string gpu = std::exchange(run.device, "8 threads on 8 cores");
  run.backend = "host";
  // Run by threads of a host, planned for GPUs: bytes are compared, times are not.
  const std::string elsewhere = page_of(plan, run);
  check_order(elsewhere, {"## Predicted beside measured", "### plan.json beside run.json",
                          "**Times are not comparable.** The plan is for 8 x H100",
                          "| Measured step | 1.20 s |", "| memory: live | 21.0 GiB | 21.0 GiB |",
                          "| time: step | 1.50 s | 1.20 s | not comparable |", "## Plan plan.json",
                          "## Run run.json"});
  run.backend = "cuda";
  run.device = gpu;
  run.environment["compute_capability"] = "9.0";
  const std::string here = page_of(plan, run);
  check_order(here, {"**Not as predicted.** The predicted step is 25.0 % longer than the measured "
                     "one, which is outside the predicted range",
                     "| time: step | 1.50 s | 1.20 s | 25.0 % |"});
  run.time.step_median = core::Seconds(1.65);
  CHECK(has(page_of(plan, run), "**As predicted.** The predicted step is 9.1 % shorter"));
  // Eight ranks on one GPU are not eight GPUs.
  run.environment["ranks_per_gpu"] = "8";
  CHECK(has(page_of(plan, run), "**Times are not comparable.**"));
}

TEST_CASE("a plan stands beside its run once, and beside another plan") {
  const planner::Plan plan = reports_test::sample_plan();
  CHECK_FALSE(has(page_of(plan, reports_test::sample_run()), "## Side by side"));
  const std::string text = planner::to_json_text(plan);
  const std::string two = page_of_files({{"a.json", text}, {"b.json", text}});
  CHECK(has(two, "# 2 plans side by side\n"));
  CHECK(has(two, "## Side by side"));
}
