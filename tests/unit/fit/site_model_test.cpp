// What runs say of a site's parts: the algebra of planner/evaluate/site_model.hpp, by hand and at
// its limits.

#include "planner/evaluate/site_model.hpp"

#include <cmath>

#include "core/random.hpp"
#include "hw_profiles/load.hpp"
#include "reports/fit/site_variances.hpp"
#include "reports/validate/predict.hpp"
#include "tests/catch.hpp"
#include "tests/unit/fit/runs.hpp"

namespace {

using planner::SiteEvidence;
using planner::SiteRun;
using planner::SiteVariances;

constexpr SiteVariances kVariances{{0.03, 0.04, 0.16}, 0.01};  // device, host, links; the run

double log_of(const hw_profiles::PartPace& p) { return std::log(p.pace); }

// Density of an error that is normal with variance v.
double density(double error, double v) { return std::exp(-error * error / (2 * v)) / std::sqrt(v); }

// What a run weighs whose error is expected with variance `spread` before its own 0.01: one in ten
// has 25 times that.
double weight(double error, double spread) {
  const double near = 0.9 * density(error, spread + 0.01),
               far = 0.1 * density(error, spread + 0.25);
  return (near + far / 25) / (near + far);
}

// Sites of 30 runs that differ in parts by kVariances, each run with slopes of its own.
std::vector<reports::fit::LeftOut> sites(int count) {
  std::vector<reports::fit::LeftOut> all;
  for (int s = 0; s < count; ++s) {
    const core::Random random(3, static_cast<std::uint64_t>(s));
    reports::fit::LeftOut set;
    set.dataset = std::to_string(s);
    for (std::uint64_t i = 0; i < 30; ++i) {
      const double links = random.uniform(100 + i) * 0.5, host = random.uniform(200 + i) * 0.5;
      SiteRun run{"gpu", 0, {1 - links - host, host, links}};
      for (std::size_t k = 0; k < 3; ++k)
        run.log_ratio += run.slopes[k] * std::sqrt(kVariances.parts[k]) * random.normal(k);
      run.log_ratio += std::sqrt(kVariances.run) * random.normal(10 + i);
      set.errors.emplace_back("r", std::exp(-run.log_ratio) - 1);
      set.runs.push_back(run);
    }
    all.push_back(std::move(set));
  }
  return all;
}

}  // namespace

TEST_CASE("a run of kernels alone tells b / (b + w) of its error, and of nothing else") {
  const std::vector<SiteRun> one{{"rtx3090", 0.2, {1, 0, 0}}};
  const hw_profiles::SiteFile site = SiteEvidence(one).learnt(kVariances);
  REQUIRE(site.gpus.size() == 1);
  const double share = 0.03 / (0.03 + 0.01 / weight(0.2, 0.03));
  CHECK(share > 0.7);
  CHECK(share < 0.75);                 // 0.03 / (0.03 + 0.01) if it could be no outlier
  CHECK(std::abs(log_of(site.gpus[0].device) - 0.2 * share) < 1e-12);
  CHECK(std::abs(site.gpus[0].device.left - 0.03 * (1 - share)) < 1e-12);
  CHECK(site.gpus[0].links.pace == 1);
  CHECK(std::abs(site.gpus[0].links.left - 0.16) < 1e-12);
  CHECK(site.host.pace == 1);
  CHECK(std::abs(site.host.left - 0.04) < 1e-12);
}

TEST_CASE("what a run tells is shared by how its parts vary and how it spends its time") {
  // K = 0.25 x 0.03 + 0.25 x 0.16 = 0.0475; t_k = b_k e_k r / (K + w / weight).
  const std::vector<SiteRun> one{{"rtx3090", 0.23, {0.5, 0, 0.5}}};
  const hw_profiles::SiteFile site = SiteEvidence(one).learnt(kVariances);
  const double pull = 0.23 / (0.0475 + 0.01 / weight(0.23, 0.0475));
  CHECK(std::abs(log_of(site.gpus[0].device) - 0.03 * 0.5 * pull) < 1e-12);
  CHECK(std::abs(log_of(site.gpus[0].links) - 0.16 * 0.5 * pull) < 1e-12);
  CHECK(std::abs(planner::log_pace(site, "rtx3090", {0.5, 0, 0.5}) - pull * 0.0475) < 1e-12);
}

TEST_CASE("one kind of GPU says nothing of another's device and links, but of the host") {
  const std::vector<SiteRun> one{{"rtx3090", 0.3, {0.4, 0.4, 0.2}}};
  const hw_profiles::SiteFile site = SiteEvidence(one).learnt(kVariances);
  CHECK(planner::log_pace(site, "h100-sxm-80g", {0.8, 0, 0.2}) == 0);
  CHECK(planner::log_pace(site, "h100-sxm-80g", {0, 1, 0}) > 0);
  CHECK(std::abs(planner::left_variance(site, "h100-sxm-80g", {1, 0, 0}, kVariances) - 0.04) <
        1e-12);
}

TEST_CASE("the network is the whole site's: one kind of GPU tells it of another") {
  constexpr SiteVariances v{{0.03, 0.04, 0.16, 0.09}, 0.01};
  const std::vector<SiteRun> one{{"rtx3090", 0.3, {0.5, 0, 0, 0.5}}};
  const hw_profiles::SiteFile site = SiteEvidence(one).learnt(v);
  CHECK(site.network.pace > 1.1);
  CHECK(std::abs(log_of(site.network) / log_of(site.gpus[0].device) - 3) < 1e-9);  // 0.09 / 0.03
  CHECK(planner::log_pace(site, "h100-sxm-80g", {0, 0, 0, 1}) == log_of(site.network));
}

TEST_CASE("a GPU of which little is known learns more from the same run") {
  const auto learnt = [](double rate_variance, int sites) {
    const std::vector<SiteRun> one{{"b200-sxm-180g", 0.2, {1, 0, 0}, rate_variance, sites}};
    return log_of(SiteEvidence(one).learnt(kVariances).gpus[0].device);
  };
  // Of 0.06 believed, two sites leave 1 / (1 / 0.06 + 2 / 0.03) = 0.012.
  CHECK(std::abs(planner::untold_variance(0.06, 2, 0.03) - 0.012) < 1e-12);
  CHECK(planner::untold_variance(0, 2, 0.03) == 0);
  const double b = 0.03 + 0.012;
  CHECK(std::abs(learnt(0.06, 2) - 0.2 * b / (b + 0.01 / weight(0.2, b))) < 1e-12);
  CHECK(learnt(0.06, 0) > learnt(0.06, 2));
  CHECK(learnt(0.06, 2) > learnt(0, 0));
  CHECK(std::abs(learnt(0.06, 100000) - learnt(0, 0)) < 1e-5);
}

TEST_CASE("a run far off beside others that agree moves nothing, whatever its place") {
  for (const std::size_t place : {0, 7, 19}) {
    std::vector<SiteRun> runs;
    for (int i = 0; i < 20; ++i) runs.push_back({"g", 0.1 + 0.02 * (i % 5 - 2), {1, 0, 0}});
    const double without = log_of(SiteEvidence(runs).learnt(kVariances).gpus[0].device);
    CHECK(std::abs(without - 0.1) < 0.01);
    runs[place].log_ratio = 1.5;
    const double with = log_of(SiteEvidence(runs).learnt(kVariances).gpus[0].device);
    CHECK(std::abs(with - without) < 0.01);  // a mean of equal weights moves by 0.07
  }
}

TEST_CASE("of two runs that contradict each other neither is thrown away") {
  const std::vector<SiteRun> two{{"g", 0.15, {1, 0, 0}}, {"g", -0.15, {1, 0, 0}}};
  CHECK(std::abs(log_of(SiteEvidence(two).learnt(kVariances).gpus[0].device)) < 1e-6);
}

TEST_CASE("many runs tell each part's pace, of each kind of GPU") {
  std::vector<SiteRun> runs;
  for (int i = 0; i < 3000; ++i) {
    const double links = (i % 7) / 10.0, host = (i % 5) / 20.0;
    const bool first = i % 2 == 0;
    const double device = 1 - links - host;
    runs.push_back({first ? "a" : "b",
                    device * (first ? 0.1 : -0.2) + host * 0.3 + links * (first ? 0.5 : 0),
                    {device, host, links}});
  }
  const hw_profiles::SiteFile site = SiteEvidence(runs).learnt(kVariances);
  REQUIRE(site.gpus.size() == 2);
  CHECK(std::abs(log_of(site.of("a")->device) - 0.1) < 0.01);
  CHECK(std::abs(log_of(site.of("b")->device) + 0.2) < 0.01);
  CHECK(std::abs(log_of(site.of("a")->links) - 0.5) < 0.01);
  CHECK(std::abs(log_of(site.of("b")->links)) < 0.01);
  CHECK(std::abs(log_of(site.host) - 0.3) < 0.01);
  CHECK(site.of("a")->device.left < 1e-4);
}

TEST_CASE("the misfit is that of the normal distribution it states") {
  // Two runs of kernels alone: covariance b + w on the diagonal, b beside it.
  const std::vector<SiteRun> two{{"g", 0.1, {1, 0, 0}}, {"g", -0.2, {1, 0, 0}}};
  const double b = 0.03, d = 0.04, determinant = d * d - b * b;
  const double quadratic = (d * 0.01 + 2 * b * 0.02 + d * 0.04) / determinant;
  CHECK(std::abs(SiteEvidence(two).misfit(kVariances) - (std::log(determinant) + quadratic)) <
        1e-10);
}

TEST_CASE("variances of parts are found again") {
  const SiteVariances v = reports::fit::site_variances_of(sites(300));
  for (std::size_t k = 0; k < 3; ++k) CHECK(std::abs(v.parts[k] / kVariances.parts[k] - 1) < 0.3);
  CHECK(std::abs(v.run / kVariances.run - 1) < 0.05);
}

TEST_CASE("slopes are those of predictions with the part slower, and add up to the step") {
  for (const auto& row : fit_test::rows()) {
    reports::validation::Predictor predictor;
    const auto ready = predictor.prepare(row);
    REQUIRE(ready.ok());
    const planner::SiteSlopes slopes = planner::site_slopes(
        ready->program, planner::site_machines(ready->question.profile, ready->question.job,
                                                ready->question.machine.product_share),
        ready->strategy.schedule);
    CHECK(std::abs(slopes[0] + slopes[1] + slopes[2] - 1) < 0.05);
    hw_profiles::SiteFile slower;
    slower.runs = {"one"};
    slower.gpus = {{row.gpu, {1.02, 0.01}, {1, 0.01}}};
    const auto a = predictor.predict(row);
    const auto b = reports::validation::Predictor({}, slower).predict(row);
    const double moved = std::log(*b->closed_form / *a->closed_form) / std::log(1.02);
    CHECK(std::abs(moved - slopes[0]) < 0.01);
  }
}
