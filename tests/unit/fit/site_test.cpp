// A site's pace: its file, what it does to a profile, and that a step follows it.

#include "hw_profiles/site.hpp"

#include <cmath>

#include "hw_profiles/load.hpp"
#include "reports/validate/calibrate.hpp"
#include "tests/catch.hpp"
#include "tests/unit/fit/runs.hpp"

namespace {

hw_profiles::SiteFile site(double pace) {
  return {pace, pace, {"one"}, "a100-sxm-80g", "megatron"};
}

}  // namespace

TEST_CASE("a site file is read back as written") {
  const auto read = hw_profiles::read_site(to_json_text(site(1.25)), "site.json");
  REQUIRE(read.ok());
  CHECK(read->pace == 1.25);
  CHECK(read->runs == std::vector<std::string>{"one"});
}

TEST_CASE("a site file that is none is refused") {
  for (const char* text :
       {R"({"schema": "site/2", "pace": 1, "runs": ["a"]})", R"({"schema": "site/1"})",
        R"({"schema": "site/1", "pace": -1, "runs": ["a"]})",
        R"({"schema": "site/1", "pace": 100, "runs": ["a"]})",
        R"({"schema": "site/1", "pace": 1, "runs": []})", "[", ""}) {
    INFO(text);
    CHECK_FALSE(hw_profiles::read_site(text, "site.json").ok());
  }
}

TEST_CASE("a step at a site of pace 1.3 lasts 1.3 times as long") {
  auto rows = fit_test::rows();
  reports::validation::Predictor plain, paced({}, site(1.3));
  for (const auto& row : rows) {
    const auto a = plain.predict(row), b = paced.predict(row);
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    // The tables of NCCL's latencies are no site's: what they say stays.
    CHECK(std::abs(b->candidate.time.step / a->candidate.time.step / 1.3 - 1) < 0.01);
    CHECK(b->candidate.uncertainty.calibration_runs == 1);
    CHECK(b->candidate.uncertainty.step_high / b->candidate.time.step <
          a->candidate.uncertainty.step_high / a->candidate.time.step);
  }
}

TEST_CASE("a profile with a site is read back from a plan file equal") {
  auto profile = *hw_profiles::find_profile("h100-sxm-80g");
  CHECK(to_json_text(profile).find("\"site\"") == std::string::npos);
  hw_profiles::use_site(profile, site(0.7), "--site site.json");
  const auto read = hw_profiles::profile_from_json_text(to_json_text(profile), "plan.json");
  REQUIRE(read.ok());
  CHECK(*read == profile);
  CHECK(read->gpu.memory_efficiency <= 1);
  CHECK(read->site.runs == 1);
}

TEST_CASE("calibration takes the share of a run's error that is its site's") {
  const std::string header =
      "id,dataset,framework,family,layers,hidden,heads,ffn_hidden,ffn,vocab,seq_len,gpu,gpus,data,"
      "micro_batch,global_batch,precision,checkpoint,attention,step_seconds\n";
  const std::string row =
      "r,here,megatron,gpt,4,1024,16,4096,gelu,32000,1024,a100-sxm-80g,8,8,4,64,bf16,none,flash2,";
  const auto one = reports::validation::calibrate(header + row + "100\n", "runs.csv");
  REQUIRE(one.ok());
  CHECK(one->site.pace == hw_profiles::kMostPace);  // beyond any site: held
  const auto none = reports::validation::calibrate(header + row + "\n", "runs.csv");
  REQUIRE_FALSE(none.ok());
  CHECK(none.problems().front().expected == "at least one row with step_seconds");
  CHECK(one->factor_after < one->factor_before);
}
