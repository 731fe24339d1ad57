// Intervals from left-out rows: the algebra of planner/evaluate/accuracy.hpp, and that they cover.

#include "planner/evaluate/accuracy.hpp"

#include <cmath>

#include "core/random.hpp"
#include "planner/evaluate/regime.hpp"
#include "reports/fit/left_out_accuracy.hpp"
#include "tests/catch.hpp"

namespace {

using namespace reports::fit;

// Sites of 30 runs: errors N(0, b) of the site and N(0, w) of the run.
std::vector<LeftOut> sites(int count, double b, double w) {
  std::vector<LeftOut> all;
  for (int s = 0; s < count; ++s) {
    const core::Random random(1, static_cast<std::uint64_t>(s));
    LeftOut set;
    for (std::uint64_t i = 1; i <= 30; ++i) {
      const double error = std::sqrt(b) * random.normal(0) + std::sqrt(w) * random.normal(i);
      set.errors.emplace_back("r", std::exp(error) - 1);
      set.runs.push_back({"gpu", -error, {1, 0, 0}});  // of kernels alone
    }
    all.push_back(std::move(set));
  }
  return all;
}

}  // namespace

TEST_CASE("a run tells b / (b + w) of its error, more runs tell more") {
  planner::Accuracy a;
  a.between = 0.03;
  a.within = 0.01;
  a.reach = 2;
  CHECK(a.share_of_site(0) == 0);
  CHECK(std::abs(a.share_of_site(1) - 0.75) < 1e-12);           // 3 / (3 + 1)
  CHECK(std::abs(a.share_of_site(3) - 0.9) < 1e-12);            // 3 / (3 + 1/3)
  CHECK(std::abs(std::log(a.step_factor(0)) - 0.4) < 1e-12);    // 2 sqrt(0.04)
  CHECK(std::abs(std::log(a.step_factor(1)) -
                 2 * std::sqrt(0.01 + 0.03 * 0.25)) < 1e-12);
  CHECK(a.step_factor(1000) > std::exp(0.2));                   // never below the run's own
}

TEST_CASE("an interval is wider where no run of the framework or of such GPUs was scored") {
  planner::Accuracy a;
  a.between = 0.03;
  a.within = 0.01;
  a.reach = 2;
  a.between_frameworks = 0.05;
  a.frameworks = {"fsdp2"};
  a.families = {"Hopper"};
  CHECK(a.unscored_variance("fsdp2", "Hopper GH100") == 0);
  CHECK(a.unscored_variance("native", "Hopper GH100") == 0.05);
  CHECK(std::abs(a.unscored_variance("native", "Volta GV100") - 0.08) < 1e-12);
  CHECK(std::abs(std::log(a.step_factor(0, 0.05)) - 2 * 0.3) < 1e-12);  // 0.04 + 0.05
  const planner::Accuracy& known = planner::accuracy();
  CHECK(known.has_scored_framework("megatron"));
  CHECK_FALSE(known.has_scored_framework("native"));  // no GPU has run it
  CHECK(known.has_scored_family("Ampere GA102"));
}

TEST_CASE("an interval is wider in a regime whose left-out runs are further off") {
  using planner::Regime;
  std::vector<LeftOut> all = sites(40, 0.005, 0.005);
  for (LeftOut& set : all) {
    for (std::size_t i = 0; i < set.errors.size(); ++i) {
      const bool over_nodes = i % 3 == 0;
      set.regimes.push_back(over_nodes ? Regime::tensor_over_nodes : Regime::computing);
      if (over_nodes) set.errors[i].second = std::pow(1 + set.errors[i].second, 3) - 1;
    }
  }
  all.front().regimes.front() = Regime::launches;  // one run alone
  const planner::Accuracy a = accuracy_of(all, {});
  CHECK(a.of(Regime::computing).more == 0);
  CHECK(a.of(Regime::tensor_over_nodes).more > a.between);
  CHECK(a.of(Regime::tensor_over_nodes).datasets == 40);
  CHECK(a.of(Regime::launches).runs == 1);
  CHECK(a.of(Regime::launches).more >= a.between);  // as much as another site
  CHECK(a.of(Regime::pipeline).runs == 0);
  CHECK(a.of(Regime::pipeline).more >= a.between);
  const std::vector<RegimeScore> scores = by_regime(all);
  REQUIRE(scores.size() == 3);
  CHECK(scores.front().mape > 2 * scores.back().mape);
  CHECK(coverage_of(all, a).uncalibrated > 0.9);
}

TEST_CASE("a step's regime is the first thing that it waits for") {
  using planner::Regime;
  using core::Seconds;
  program::Mesh mesh{.tensor = 16, .data = 2};
  planner::Time t{.step = Seconds(1)};
  CHECK(regime_of(mesh, 8, t) == Regime::tensor_over_nodes);
  mesh.tensor = 8;
  CHECK(regime_of(mesh, 8, t) == Regime::computing);
  t.bubble = Seconds(0.2);
  CHECK(regime_of(mesh, 8, t) == Regime::pipeline);
  t.exposed_communication = Seconds(0.3);
  CHECK(regime_of(mesh, 8, t) == Regime::communication);
  t.launch_bound = true;
  CHECK(regime_of(mesh, 8, t) == Regime::launches);
}

TEST_CASE("a calibration narrows a step by the variance that its runs left of each part") {
  planner::Accuracy a;
  a.between = 0.03;
  a.within = 0.01;
  a.reach = a.site_reach = 2;
  a.site = {{0.03, 0.02, 0.1}, 0.01};
  hw_profiles::Site site;
  CHECK(a.step_factor(site, {1, 0, 0}) == a.step_factor(0));
  site.runs = 1;
  site.host_left = 0.01;
  site.device_left = 0.0069;
  site.links_left = 0.02;
  // 0.01 + 0.25 x 0.0069 + 0.25 x 0.01 + 0
  CHECK(std::abs(std::log(a.step_factor(site, {0.5, 0.5, 0})) - 2 * std::sqrt(0.014225)) < 1e-12);
  CHECK(a.step_factor(site, {0, 0, 1}) < a.step_factor(0));
  site.device_left = site.links_left = std::nullopt;  // another kind of GPU
  CHECK(a.step_factor(site, {1, 0, 0}) == a.step_factor(0));
  CHECK(a.step_factor(site, {0, 0, 1}) == a.step_factor(0));  // never wider than without
  site.pace = 1.1;
  CHECK(a.step_factor(site, {1, 0, 0}) == a.step_factor(1));
}

TEST_CASE("what takes exactly the memory there is runs out half of the time") {
  using planner::out_of_memory;
  const planner::MemoryError error = planner::memory_error(0.05);
  CHECK(out_of_memory({80, 80, error}) == 0.5);
  // 0.9 Phi(-1) + 0.1 Phi(-0.2)
  CHECK(std::abs(out_of_memory({80, 80 * std::exp(0.05), error}) - 0.184863) < 1e-5);
  CHECK(out_of_memory({40, 80, error}) < 0.001);  // 0.1 Phi(-2.77)
  CHECK(out_of_memory({8, 80, error}) < 1e-12);
  CHECK(out_of_memory({0, 80, error}) == 0);
  CHECK(planner::expected_step(4, 0.5) == 4 * (1 + planner::kFailedRun / 2));
}

TEST_CASE("memory is less sure in regimes that are further off and where no memory is known") {
  using planner::MemoryRegime;
  planner::Accuracy a;
  a.memory_spread = 0.06;
  a.memory_between = 0.0064;
  a.memory_frameworks = {"fsdp2"};
  a.memory_regimes[static_cast<std::size_t>(MemoryRegime::pipeline)].more = 0.0028;
  const auto deviation = [&](const char* framework, MemoryRegime regime) {
    return a.memory_error(framework, regime).usual;
  };
  CHECK(std::abs(deviation("fsdp2", MemoryRegime::one_stage) - 0.06) < 1e-12);
  CHECK(std::abs(deviation("fsdp2", MemoryRegime::pipeline) - 0.08) < 1e-12);
  CHECK(std::abs(deviation("other", MemoryRegime::one_stage) - 0.1) < 1e-12);
  // Outliers are further off by their own error alone: 0.3^2 + 0.08^2.
  const planner::MemoryError other = a.memory_error("other", MemoryRegime::one_stage);
  CHECK(std::abs(other.outlier - std::sqrt(0.0964)) < 1e-12);
  CHECK(planner::out_of_memory({70, 80, other}) >
        planner::out_of_memory({70, 80, a.memory_error("fsdp2", MemoryRegime::one_stage)}));
  const planner::Accuracy& known = planner::accuracy();
  CHECK(known.has_scored_memory("nanotron"));
  CHECK(known.has_scored_memory("native"));  // its buffers equal the prediction
  CHECK_FALSE(known.has_scored_memory("generic"));
  for (std::size_t r = 0; r < planner::kMemoryRegimes; ++r)
    CHECK(known.memory_regimes[r].runs > 0);
}

TEST_CASE("the memory of a rank is cut out in one of three ways") {
  using planner::MemoryRegime;
  planner::Strategy s;
  s.data = 4;
  CHECK(memory_regime_of(s, 8) == MemoryRegime::one_stage);
  s.pipeline = 2;
  CHECK(memory_regime_of(s, 8) == MemoryRegime::pipeline);
  s.tensor = 8;
  CHECK(memory_regime_of(s, 8) == MemoryRegime::pipeline);
  s.tensor = 16;
  CHECK(memory_regime_of(s, 8) == MemoryRegime::tensor_over_nodes);
}

TEST_CASE("variances of sites and runs are found again, and intervals cover what they claim") {
  const std::vector<LeftOut> fitted = sites(200, 0.03, 0.01);
  const Variances v = variances_of(fitted);
  CHECK(std::abs(v.between / 0.03 - 1) < 0.25);
  CHECK(std::abs(v.within / 0.01 - 1) < 0.1);
  const planner::Accuracy a = accuracy_of(fitted, {});
  const Coverage c = coverage_of(fitted, a);
  CHECK(std::abs(c.uncalibrated - 0.9) < 0.02);
  CHECK(std::abs(c.one_run - 0.9) < 0.01);
  CHECK(std::abs(a.site.parts[0] / 0.03 - 1) < 0.25);
  CHECK(std::abs(a.site.run / 0.01 - 1) < 0.1);
}

TEST_CASE("the written accuracy is read back") {
  const planner::Accuracy a = accuracy_of(sites(5, 0.02, 0.01), {});
  const auto read = planner::read_accuracy(to_json_text(a, "a test"), "a.json");
  REQUIRE(read.ok());
  CHECK(read->between == a.between);
  CHECK(read->reach == a.reach);
  CHECK(read->site.parts == a.site.parts);
  CHECK(read->site_reach == a.site_reach);
}
