#include "sim/engine/goodput.hpp"

#include <cmath>

#include "tests/catch.hpp"

using core::Seconds;
using engine::FailureModel;

TEST_CASE("goodput without failures is what saving leaves") {
  const FailureModel m{Seconds(1e15), Seconds(10), Seconds(50), Seconds(600)};
  // 20 steps of 10 s and a save of 50 s: 200 / 250.
  CHECK(engine::expected_goodput(m, 20) == Approx(0.8).epsilon(1e-9));
  const engine::GoodputRun run = engine::play_failures(m, 20, Seconds(250'000), 1);
  CHECK(run.goodput == Approx(0.8).epsilon(1e-12));
  CHECK(run.saves == 1000);
  CHECK(run.steps == 20'000);
  CHECK(run.failures == 0);
}

TEST_CASE("goodput worked by hand: one failure in a cycle's time on average") {
  // M = 100, k t + d = 100, R = 0: E = 100 (e - 1); useful 90.
  const FailureModel m{Seconds(100), Seconds(1), Seconds(10), Seconds(0)};
  CHECK(engine::expected_goodput(m, 90) == Approx(90 / (100 * (std::exp(1.0) - 1))));
}

TEST_CASE("the best interval beats its neighbours; where failures are rare it is sqrt(2 d M)") {
  for (const double save : {5.0, 60.0, 600.0}) {
    for (const double between : {3600.0, 86'400.0, 2e6}) {
      const FailureModel m{Seconds(between), Seconds(7), Seconds(save), Seconds(300)};
      const std::int64_t k = engine::best_interval(m);
      INFO("save " << save << ", between " << between << ", interval " << k);
      CHECK(engine::expected_goodput(m, k) >= engine::expected_goodput(m, k + 1));
      if (k > 1) CHECK(engine::expected_goodput(m, k) >= engine::expected_goodput(m, k - 1));
      const double rule = std::sqrt(2 * save * between) / 7;
      if (save < between / 500) CHECK(static_cast<double>(k) == Approx(rule).epsilon(0.05));
    }
  }
}

TEST_CASE("played failures come to the expected goodput, by the seed") {
  const FailureModel m{Seconds(10'000), Seconds(8), Seconds(60), Seconds(400)};
  for (const std::int64_t k : {20, 130, 600}) {
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed)
      sum += engine::play_failures(m, k, Seconds(2e7), seed).goodput;
    // 16,000 failures in all: a standard error below 1 %.
    CHECK(sum / 8 == Approx(engine::expected_goodput(m, k)).epsilon(0.02));
  }
  const auto a = engine::play_failures(m, 130, Seconds(1e6), 5);
  const auto b = engine::play_failures(m, 130, Seconds(1e6), 5);
  const auto c = engine::play_failures(m, 130, Seconds(1e6), 6);
  CHECK(a.steps == b.steps);
  CHECK(a.failures == b.failures);
  CHECK((a.failures != c.failures || a.steps != c.steps));
  CHECK(a.lost_steps > 0);
}
