// A site's paces by part: its file, what it does to a profile, and that a step follows it.

#include "hw_profiles/site.hpp"

#include <cmath>

#include "hw_profiles/load.hpp"
#include "hw_profiles/numbers.hpp"
#include "reports/validate/calibrate.hpp"
#include "tests/catch.hpp"
#include "tests/unit/fit/runs.hpp"

namespace {

hw_profiles::SiteFile site(double device, double host = 1, double links = 1) {
  hw_profiles::SiteFile file;
  file.runs = {"one"};
  file.framework = "megatron";
  file.host = {host, 0.01};
  file.network = {links, 0.03};
  file.gpus = {{"a100-sxm-80g", {device, 0.005}, {links, 0.02}}};
  return file;
}

constexpr const char* kParts =
    R"("host": {"pace": 1, "left": 0.02}, "gpus": [{"gpu": "rtx3090",
       "device": {"pace": 1.1, "left": 0.01}, "links": {"pace": 2, "left": 0.01}}])";

std::string second(const std::string& parts, const char* runs = R"(["a"])") {
  return std::string(R"({"schema": "site/2", "runs": )") + runs + ", " + parts + "}";
}

core::Result<reports::validation::Calibration> calibrate(const std::string& text,
                                                         const char* source) {
  reports::validation::SiteLearner learner;
  if (const core::Status added = learner.add_rows(text, source); !added.ok())
    return added.problems();
  return learner.learnt();
}

// Rows of one run, timed as said.
std::string csv(const std::string& seconds) {
  return "id,dataset,framework,family,layers,hidden,heads,ffn_hidden,ffn,vocab,seq_len,gpu,gpus,"
         "data,micro_batch,global_batch,precision,checkpoint,attention,step_seconds\n"
         "r,here,megatron,gpt,4,1024,16,4096,gelu,32000,1024,a100-sxm-80g,8,8,4,64,bf16,none,"
         "flash2," +
         seconds + "\n";
}

}  // namespace

TEST_CASE("a site file is read back as written") {
  const auto read = hw_profiles::read_site(to_json_text(site(1.25, 1.5, 0.75)), "site.json");
  REQUIRE(read.ok());
  CHECK(read->host.pace == 1.5);
  REQUIRE(read->of("a100-sxm-80g") != nullptr);
  CHECK(read->of("a100-sxm-80g")->device.pace == 1.25);
  CHECK(read->of("a100-sxm-80g")->links.pace == 0.75);
  CHECK(read->of("a100-sxm-80g")->links.left == 0.02);
  CHECK(read->of("h100-sxm-80g") == nullptr);
  CHECK(read->network.pace == 0.75);
  CHECK(read->network.left == 0.03);
  CHECK(read->runs == std::vector<std::string>{"one"});
}

TEST_CASE("the first kind of site file is read, and paces everything on any GPU") {
  const auto read = hw_profiles::read_site(
      R"({"schema": "site/1", "pace": 1.3, "runs": ["a"], "gpu": "rtx3090"})", "site.json");
  REQUIRE(read.ok());
  auto profile = *hw_profiles::find_profile("h100-sxm-80g");
  const hw_profiles::Profile plain = profile;
  REQUIRE(hw_profiles::use_site(profile, *read, "--site site.json").ok());
  for (const char* rate : {"gpu.gemm_sustained", "node.link_bandwidth"})
    CHECK(std::abs(*hw_profiles::number_of(profile, rate) * 1.3 /
                       *hw_profiles::number_of(plain, rate) -
                   1) < 1e-12);
  CHECK(profile.site.pace == 1.3);
  CHECK_FALSE(profile.site.device.has_value());
}

TEST_CASE("the links of the second kind of site file are its network too") {
  const auto read = hw_profiles::read_site(second(kParts), "site.json");
  REQUIRE(read.ok());
  CHECK(read->network.pace == 2);
  CHECK(read->network.left == 0.01);
  const auto host_alone = hw_profiles::read_site(
      second(R"("host": {"pace": 1, "left": 0.02}, "gpus": [])"), "site.json");
  REQUIRE(host_alone.ok());
  CHECK(host_alone->network.pace == 1);
}

TEST_CASE("a site file that is none is refused") {
  for (const std::string& text : std::vector<std::string>{
           R"({"schema": "site/2", "pace": 1, "runs": ["a"]})", R"({"schema": "site/1"})",
           R"({"schema": "site/1", "pace": -1, "runs": ["a"]})",
           R"({"schema": "site/1", "pace": 100, "runs": ["a"]})",
           R"({"schema": "site/1", "pace": 1, "runs": []})", "[", "",
           R"({"schema": "site/4", "runs": ["a"]})", R"({"schema": "site/3", "runs": ["a"]})",
           second(kParts, "[]"), second(R"("host": {"pace": 100, "left": 1}, "gpus": [])"),
           second(R"("host": {"pace": 1}, "gpus": [])"),
           second(R"("host": {"pace": 1, "left": 1}, "gpus": [{"gpu": "rtx3090"}])")}) {
    INFO(text);
    CHECK_FALSE(hw_profiles::read_site(text, "site.json").ok());
  }
  CHECK(hw_profiles::read_site(second(kParts), "site.json").ok());
}

TEST_CASE("a step at a site whose parts are all 1.3 times as slow lasts 1.3 times as long") {
  auto rows = fit_test::rows();
  reports::validation::Predictor plain, paced({}, site(1.3, 1.3, 1.3));
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

TEST_CASE("each part's pace scales its own numbers alone, and together they scale them all") {
  const hw_profiles::Profile plain = *hw_profiles::find_profile("a100-sxm-80g");
  const auto pace_with = [&](double device, double host, double links) {
    auto profile = plain;
    REQUIRE(hw_profiles::use_site(profile, site(device, host, links), "a test").ok());
    return profile;
  };
  const auto moved = [&](const hw_profiles::Profile& profile, const char* field) {
    return *hw_profiles::number_of(profile, field) / *hw_profiles::number_of(plain, field);
  };
  const auto device = pace_with(2, 1, 1), host = pace_with(1, 2, 1), links = pace_with(1, 1, 2);
  CHECK(moved(device, "gpu.gemm_sustained") == 0.5);
  CHECK(moved(device, "native.graph_launch") == 1);
  CHECK(moved(device, "node.link_bandwidth") == 1);
  CHECK(moved(host, "gpu.gemm_sustained") == 1);
  CHECK(moved(host, "native.graph_launch") == 2);
  CHECK(moved(host, "node.link_latency") == 1);
  CHECK(moved(links, "gpu.memory_efficiency") == 1);
  CHECK(moved(links, "native.graph_launch") == 1);
  CHECK(moved(links, "node.internode_bandwidth") == 0.5);
  CHECK(moved(links, "node.link_latency") == 2);
}

TEST_CASE("a GPU that the site's runs were not on is given the host's and the network's paces") {
  auto profile = *hw_profiles::find_profile("h100-sxm-80g");
  const hw_profiles::Profile plain = profile;
  REQUIRE(hw_profiles::use_site(profile, site(1.5, 1.2, 2), "--site site.json").ok());
  CHECK(profile.gpu == plain.gpu);
  CHECK(profile.node.link_bandwidth == plain.node.link_bandwidth);
  CHECK(*hw_profiles::number_of(profile, "node.internode_bandwidth") * 2 ==
        *hw_profiles::number_of(plain, "node.internode_bandwidth"));
  CHECK(profile.site.host == 1.2);
  CHECK(profile.site.network == 2);
  CHECK_FALSE(profile.site.device.has_value());
  CHECK(profile.lookup("site.runs")->source == "--site site.json: 1 run on a100-sxm-80g");
}

TEST_CASE("a profile with a site is read back from a plan file equal") {
  for (const char* gpu : {"h100-sxm-80g", "a100-sxm-80g"}) {
    auto profile = *hw_profiles::find_profile(gpu);
    CHECK(to_json_text(profile).find("\"site\"") == std::string::npos);
    REQUIRE(hw_profiles::use_site(profile, site(0.7, 1.1, 0.9), "--site site.json").ok());
    const auto read = hw_profiles::profile_from_json_text(to_json_text(profile), "plan.json");
    REQUIRE(read.ok());
    CHECK(*read == profile);
    CHECK(read->gpu.memory_efficiency <= 1);
    CHECK(read->site.runs == 1);
  }
}

TEST_CASE("calibration takes the share of a run's error that is its site's") {
  const auto plain = calibrate(csv("1"), "runs.csv");
  REQUIRE(plain.ok());
  const double predicted = 1 / plain->site.measured_over_predicted;
  const auto one = calibrate(csv(std::to_string(1.2 * predicted)), "r.csv");
  REQUIRE(one.ok());
  CHECK(std::abs(one->site.measured_over_predicted - 1.2) < 1e-4);
  const hw_profiles::GpuPace* const gpu = one->site.of("a100-sxm-80g");
  REQUIRE(gpu != nullptr);
  CHECK(gpu->device.pace > 1.02);      // the run is one of kernels
  CHECK(gpu->device.pace < 1.2);       // and partly its own
  CHECK(one->site.host.pace >= 1);
  CHECK(one->factor_after < one->factor_before);
}

TEST_CASE("calibration without a timed run is refused, one beyond any site is held") {
  const auto far = calibrate(csv("100000"), "runs.csv");
  REQUIRE(far.ok());
  CHECK(far->site.of("a100-sxm-80g")->device.pace > 1.2);
  CHECK(far->site.of("a100-sxm-80g")->device.pace <= hw_profiles::kMostPace);
  const auto none = calibrate(csv(""), "runs.csv");
  REQUIRE_FALSE(none.ok());
  CHECK(none.problems().front().expected == "at least one row with step_seconds");
}
