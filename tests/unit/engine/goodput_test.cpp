#include "sim/engine/goodput.hpp"

#include <cmath>

#include "core/random.hpp"
#include "tests/catch.hpp"

using core::Seconds;
using engine::FailureModel;
using engine::GoodputRun;
using engine::Saving;

namespace {

// One part, which takes no node away.
FailureModel model(double between, double step, double save, double restart) {
  FailureModel m;
  m.parts = {{"gpu", 1, Seconds(between), 0, Seconds(0)}};
  m.step = Seconds(step);
  m.save = Seconds(save);
  m.restart = Seconds(restart);
  return m;
}

double mean_played(const FailureModel& m, std::int64_t interval, double horizon, int seeds) {
  double sum = 0;
  for (int seed = 1; seed <= seeds; ++seed)
    sum += engine::play_failures(m, interval, Seconds(horizon), static_cast<std::uint64_t>(seed))
               .goodput;
  return sum / seeds;
}

void check_shares(const GoodputRun& r) {
  CHECK(r.goodput + r.saving + r.repeated + r.restarting + r.waiting == Approx(1).epsilon(1e-9));
  std::int64_t of_kinds = 0;
  for (const std::int64_t n : r.of_kind) of_kinds += n;
  CHECK(of_kinds == r.failures);
}

}  // namespace

TEST_CASE("goodput without failures is what saving leaves") {
  const FailureModel m = model(1e15, 10, 50, 600);
  // 20 steps of 10 s and a save of 50 s: 200 / 250.
  CHECK(engine::expected_goodput(m, 20) == Approx(0.8).epsilon(1e-9));
  CHECK(engine::daly_goodput(m, 20) == Approx(0.8).epsilon(1e-9));
  CHECK(engine::first_order_goodput(m, 20) == Approx(0.8).epsilon(1e-9));
  const GoodputRun run = engine::play_failures(m, 20, Seconds(250'000), 1);
  CHECK(run.goodput == Approx(0.8).epsilon(1e-12));
  CHECK(run.saving == Approx(0.2).epsilon(1e-12));
  CHECK(run.saves == 1000);
  CHECK(run.steps == 20'000);
  CHECK(run.failures == 0);
}

TEST_CASE("goodput worked by hand: one failure in a cycle's time on average") {
  // M = 100, k t + d = 100, R = 0: E = 100 (e - 1); useful 90.
  const FailureModel m = model(100, 1, 10, 0);
  CHECK(engine::daly_goodput(m, 90) == Approx(90 / (100 * (std::exp(1.0) - 1))));
  // To first order: a failure loses 45 of every 100, and a save takes 10 of 90.
  CHECK(engine::first_order_goodput(m, 90) == Approx(0.55 / (1 + 10.0 / 90)));
}

TEST_CASE("the best interval beats its neighbours; where failures are rare it is Young's") {
  for (const double save : {5.0, 60.0, 600.0}) {
    for (const double between : {3600.0, 86'400.0, 2e6}) {
      const FailureModel m = model(between, 7, save, 300);
      const std::int64_t k = engine::best_interval(m);
      INFO("save " << save << ", between " << between << ", interval " << k);
      CHECK(engine::expected_goodput(m, k) >= engine::expected_goodput(m, k + 1));
      if (k > 1) CHECK(engine::expected_goodput(m, k) >= engine::expected_goodput(m, k - 1));
      if (save < between / 500)
        CHECK(static_cast<double>(engine::young_interval(m)) ==
              Approx(static_cast<double>(k)).epsilon(0.05));
      // Daly's higher order holds where Young's does not.
      if (save < between / 2)
        CHECK(std::abs(static_cast<double>(engine::daly_interval(m) - k)) <=
              1 + 0.02 * static_cast<double>(k));
    }
  }
}

TEST_CASE("Daly's published best intervals are found") {
  // [daly] figures 3 to 5, restart 10 min, save 5 min: 117 min, 57 min and 9.1 min of work for
  // failures every 24 h, 6 h and 15 min.
  const std::pair<double, double> published[] = {{24 * 3600, 117}, {6 * 3600, 57}, {900, 9.1}};
  for (const auto& [between, minutes] : published) {
    const FailureModel m = model(between, 1, 300, 600);
    CHECK(static_cast<double>(engine::daly_interval(m)) / 60 == Approx(minutes).epsilon(0.01));
  }
}

TEST_CASE("played failures come to the expected goodput, by the seed") {
  const FailureModel m = model(10'000, 8, 60, 400);
  for (const std::int64_t k : {20, 130, 600})
    // 16,000 failures in all: a standard error below 1 %.
    CHECK(mean_played(m, k, 2e7, 8) == Approx(engine::expected_goodput(m, k)).epsilon(0.02));
  const auto a = engine::play_failures(m, 130, Seconds(1e6), 5);
  const auto b = engine::play_failures(m, 130, Seconds(1e6), 5);
  const auto c = engine::play_failures(m, 130, Seconds(1e6), 6);
  CHECK(a.steps == b.steps);
  CHECK(a.failures == b.failures);
  CHECK((a.failures != c.failures || a.steps != c.steps));
  CHECK(a.lost_steps > 0);
  check_shares(a);
}

TEST_CASE("with sync saves and nodes at once the extended formula is Daly's") {
  for (const double between : {500.0, 10'000.0, 1e6})
    for (const std::int64_t k : {1, 10, 1000}) {
      const FailureModel m = model(between, 8, 60, 400);
      CHECK(engine::expected_goodput(m, k) == Approx(engine::daly_goodput(m, k)).epsilon(1e-9));
    }
}

TEST_CASE("saves behind the steps: formula and simulation agree, even if a write outlasts them") {
  for (const double behind : {0.0, 100.0, 900.0, 5000.0}) {
    FailureModel m = model(10'000, 8, 5, 400);
    m.saving = Saving::async;
    m.behind = Seconds(behind);
    for (const std::int64_t k : {20, 130}) {
      INFO("behind " << behind << ", interval " << k);
      CHECK(mean_played(m, k, 2e7, 8) == Approx(engine::expected_goodput(m, k)).epsilon(0.02));
    }
  }
  // Saving behind the steps is worth it: a minute of waiting less for each checkpoint.
  FailureModel async = model(10'000, 8, 1, 400);
  async.saving = Saving::async;
  async.behind = Seconds(60);
  const FailureModel sync = model(10'000, 8, 60, 400);
  CHECK(engine::expected_goodput(async, engine::best_interval(async)) >
        engine::expected_goodput(sync, engine::best_interval(sync)) + 0.05);
}

TEST_CASE("without a spare each failure waits for its repair, exactly") {
  FailureModel m = model(10'000, 8, 60, 400);
  m.parts[0].nodes = 1;
  m.parts[0].repair = Seconds(3000);
  m.spares = 0;
  CHECK(engine::expected_wait(m).value() == Approx(3000).epsilon(1e-9));
  const FailureModel at_once = model(10'000, 8, 60, 400);
  CHECK(engine::expected_goodput(m, 100) ==
        Approx(engine::expected_goodput(at_once, 100) * 10'000 / 13'000).epsilon(1e-9));
  CHECK(mean_played(m, 100, 2e7, 8) == Approx(engine::expected_goodput(m, 100)).epsilon(0.02));
}

TEST_CASE("spare nodes shorten the wait, and formula and simulation agree on it") {
  double before = 0;
  for (const std::int64_t spares : {0, 1, 2, 4, 8, 40}) {
    FailureModel m = model(10'000, 8, 60, 400);
    m.parts[0].nodes = 1;
    m.parts[0].repair = Seconds(30'000);  // three nodes away on average
    m.spares = spares;
    const double expected = engine::expected_goodput(m, 100);
    INFO("spares " << spares);
    CHECK(mean_played(m, 100, 2e7, 8) == Approx(expected).epsilon(0.03));
    CHECK(expected > before);
    before = expected;
  }
  CHECK(before == Approx(engine::expected_goodput(model(10'000, 8, 60, 400), 100)).epsilon(1e-6));
}

TEST_CASE("a switch takes its nodes with it, and waits where fewer stand by") {
  FailureModel m = model(50'000, 8, 60, 400);
  m.parts.push_back({"switch", 1, Seconds(100'000), 16, Seconds(7200)});
  m.parts[0].nodes = 1;
  m.parts[0].repair = Seconds(7200);
  m.spares = 16;
  const double enough = engine::expected_goodput(m, 100);
  m.spares = 15;
  const double short_of_one = engine::expected_goodput(m, 100);
  CHECK(short_of_one < enough - 0.03);
  CHECK(mean_played(m, 100, 2e7, 8) == Approx(short_of_one).epsilon(0.03));
  check_shares(engine::play_failures(m, 100, Seconds(2e7), 1));
}

TEST_CASE("copies in memory survive a node and are lost with two") {
  FailureModel m = model(10'000, 8, 2, 400);
  m.saving = Saving::memory;
  m.behind = Seconds(10);
  m.stored = Seconds(600);
  m.restart_stored = Seconds(1000);
  m.nodes = 1000;
  m.parts[0].nodes = 1;
  const GoodputRun alone = engine::play_failures(m, 5, Seconds(2e7), 3);
  CHECK(alone.memory_lost <= 2);       // only where the other node fails during a restart
  CHECK(mean_played(m, 5, 2e7, 8) == Approx(engine::expected_goodput(m, 5)).epsilon(0.02));
  // Where there are two nodes, a failure during the restart hits the copy for certain.
  FailureModel pair = m;
  pair.nodes = 2;
  const GoodputRun two = engine::play_failures(pair, 5, Seconds(2e7), 3);
  CHECK(two.memory_lost > 20);
  m.parts.push_back({"switch", 1, Seconds(50'000), 16, Seconds(0)});
  const GoodputRun both = engine::play_failures(m, 5, Seconds(2e7), 3);
  // Some switches fail during a restart that another one caused.
  CHECK(10 * both.memory_lost > 9 * both.of_kind[1]);
  CHECK(mean_played(m, 5, 2e7, 8) == Approx(engine::expected_goodput(m, 5)).epsilon(0.03));
  check_shares(both);
}

TEST_CASE("failures within a step leave hardly any goodput, and the simulation still ends") {
  const FailureModel m = model(1, 100, 10, 1000);
  CHECK(engine::best_interval(m) == 1);
  CHECK(engine::expected_goodput(m, 1) < 1e-12);
  const GoodputRun run = engine::play_failures(m, 1, Seconds(10'000), 1);
  CHECK(run.steps == 0);
  CHECK(run.failures > 5000);
  CHECK(run.goodput == 0);
}
