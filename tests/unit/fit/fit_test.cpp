// Fits find the constants that made their runs; a site's pace does not reach the others.

#include "reports/fit/fit.hpp"

#include <cmath>

#include "core/file.hpp"
#include "core/json.hpp"
#include "reports/fit/clusters.hpp"
#include "reports/fit/left_out_accuracy.hpp"
#include "tests/catch.hpp"
#include "tests/unit/fit/runs.hpp"

namespace {

using namespace reports::fit;

std::vector<Constant> sustained(double prior) {
  return {{"gpu.gemm_sustained", {"a100-sxm-80g"}, prior, 0.4, 0.86, 0.5, "a test"}};
}
FitOptions quick() {
  FitOptions options;
  options.solver.trust = 1e-6;
  return options;
}

}  // namespace

TEST_CASE("a fit times each run on the network that it measured and by the kernels that it ran") {
  auto rows = fit_test::rows();
  for (auto& row : rows) row.gpus_per_node = 4;      // two nodes
  rows[1].all_reduce_gbs = 20;
  rows[1].gather_gbs = 10;
  rows[2].tf32 = true;
  rows[2].job.recipe = "fp32";
  reports::validation::Predictor predictor;
  const Cases cases(rows, sustained(0.7));
  REQUIRE(cases.all().size() == rows.size());
  const std::vector<std::size_t> chosen{0, 1, 2, 3};
  const std::vector<double> ratios = cases.log_ratios(chosen, cases.shipped());
  for (const std::size_t i : chosen) {
    const auto predicted = predictor.predict(rows[i]);
    REQUIRE(predicted.ok());
    const double step = predicted->candidate.time.step / *rows[i].step;
    CHECK(std::abs(std::exp(ratios[i]) / step - 1) < 1e-3);
  }
}

TEST_CASE("a fit finds the constant that made the times") {
  auto rows = fit_test::rows();
  fit_test::measure(rows, 0.6);
  const Cases cases(rows, sustained(0.8));
  REQUIRE(cases.all().size() == 8);
  const Fitted fitted = fit(cases, quick());
  CHECK(std::abs(fitted.values.front() / 0.6 - 1) < 0.01);
  CHECK(fitted.training.mape < 0.005);
  CHECK(fitted.left_out.size() == 2);
  CHECK(fitted.left_out.front().time.mape < 0.01);
}

TEST_CASE("what a fit minimises includes the regret of a soft pick among alternatives") {
  // Runs of 2 to 16 samples a micro-batch, seconds for 16 micro-batches each: twice as long each.
  auto rows = fit_test::rows();
  rows.resize(2);
  fit_test::measure(rows, 0.6);
  *rows[0].step = 1.06 * *rows[1].step;          // the second is faster, against the prediction
  for (auto& row : rows) row.group = "one job";
  const Cases fixed(rows, {{"gpu.gemm_sustained", {"a100-sxm-80g"}, 0.6, 0.6, 0.6, 0.5, "a test"}});
  const std::vector<std::size_t> chosen{0, 1};
  const std::vector<double> start{0.6};
  const auto objective = [&](const Cases& cases, double rank) {
    SolverOptions options;
    options.rank = rank;
    return solve(cases, chosen, start, options).objective;
  };
  const std::vector<double> ratios = fixed.log_ratios(chosen, start);
  const double apart = (ratios[0] + std::log(fixed.all()[0].measured)) -
                       (ratios[1] + std::log(fixed.all()[1].measured));
  const double first = 1 / (1 + std::exp(apart / SolverOptions{}.soft));
  CHECK(first > 0.99);
  CHECK(objective(fixed, 1) - objective(fixed, 0) == Approx(0.06 * first).epsilon(1e-6));
  for (auto& row : rows) row.group.clear();
  const Cases apart_jobs(rows, fixed.constants());
  CHECK(objective(apart_jobs, 1) == objective(apart_jobs, 0));
}

TEST_CASE("a fit does not leave the bounds") {
  auto rows = fit_test::rows();
  fit_test::measure(rows, 0.2);
  const Fitted fitted = fit(Cases(rows, sustained(0.7)), quick());
  CHECK(fitted.values.front() >= 0.4);
  CHECK(fitted.values.front() < 0.41);
}

TEST_CASE("what is believed wins where runs do not say") {
  auto rows = fit_test::rows();
  fit_test::measure(rows, 0.6);
  std::vector<Constant> constants = sustained(0.8);
  constants.push_back({"framework.kernel_submit", {"fsdp1"}, 12e-6, 3e-6, 40e-6, 0.3, "unused"});
  const Cases cases(rows, constants);
  const Fitted fitted = fit(cases, quick());
  CHECK(cases.counts().back() == 0);
  CHECK(std::abs(fitted.values.back() / 12e-6 - 1) < 1e-6);
}

TEST_CASE("equal seeds give equal fits") {
  auto rows = fit_test::rows();
  fit_test::measure(rows, 0.6, 1.2);
  const Cases cases(rows, sustained(0.8));
  FitOptions options = quick();
  options.starts = 3;
  options.seed = 7;
  CHECK(to_json_text(fit(cases, options)) == to_json_text(fit(cases, options)));
}

TEST_CASE("one run of a slow site sets the pace of its others") {
  auto rows = fit_test::rows();
  fit_test::measure(rows, 0.6, 1.3);
  const Fitted fitted = fit(Cases(rows, sustained(0.6)), quick());
  const LeftOut& south = fitted.left_out.back();
  REQUIRE(south.dataset == "south");
  CHECK(south.time.bias < -0.2);       // 1 / 1.3 - 1 = -23 %
  CHECK(south.one_run_of_all.mape < 0.05);
  CHECK(fitted.site.parts[0] > 4 * fitted.site.run);  // devices differ, their runs do not
}

TEST_CASE("the worst clusters are runs of one dataset that wait for the same, the worst first") {
  const auto set = [](const char* name, planner::Regime regime, double error, std::size_t rows) {
    LeftOut out;
    out.dataset = name;
    for (std::size_t i = 0; i < rows; ++i) {
      out.errors.emplace_back(std::to_string(i), i % 2 == 0 ? error : -error);
      out.regimes.push_back(regime);
    }
    return out;
  };
  using planner::Regime;
  const std::vector<LeftOut> left_out{set("far", Regime::communication, 0.3, 6),
                                      set("near", Regime::computing, 0.1, 6),
                                      set("few", Regime::computing, 0.9, kClusterRows - 1)};
  const auto worst = worst_clusters(left_out, 10);
  REQUIRE(worst.size() == 2);
  CHECK(worst[0].dataset == "far");
  CHECK(worst[0].mape == Approx(0.3));
  CHECK(worst[0].bias == Approx(0).margin(1e-12));
  CHECK(worst[0].cause.empty());
  CHECK(worst_clusters(left_out, 1).size() == 1);
}

TEST_CASE("each cause is of a regime, and whole sentences") {
  const std::string path = std::string(PLANNER_GOLDEN) + "/../../reports/fit/causes.json";
  const std::string text = core::read_file(path, 1 << 20).value();
  const auto json = core::parse_json(text, "causes.json");
  REQUIRE(json.ok());
  std::size_t told = 0, known = 0;
  for (const auto& [dataset, causes] : json->members()) {
    told += causes.members().size();
    for (std::size_t r = 0; r < planner::kRegimes; ++r) {
      const std::string cause = cause_of(dataset, static_cast<planner::Regime>(r));
      if (cause.empty()) continue;
      ++known;
      CHECK(cause.ends_with('.'));
    }
  }
  CHECK(told >= 10);
  CHECK(known == told);
}
