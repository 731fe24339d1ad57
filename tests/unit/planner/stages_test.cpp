// Pipeline boundaries: the program against every division there is, and the transformer by hand.
#include "planner/search/stages.hpp"

#include <functional>

#include "core/random.hpp"
#include "planner/strategy/schedules.hpp"
#include "tests/catch.hpp"

using namespace planner;
using Stages = std::vector<std::int64_t>;

namespace {

// Every division of `layers` into `stages`, in the order of their earliest boundaries.
void each_division(std::int64_t layers, std::int64_t stages, Stages& head,
                   const std::function<void(const Stages&)>& visit) {
  if (stages == 1) {
    head.push_back(layers);
    visit(head);
    head.pop_back();
    return;
  }
  for (std::int64_t n = 1; n + stages - 1 <= layers; ++n) {
    head.push_back(n);
    each_division(layers - n, stages - 1, head, visit);
    head.pop_back();
  }
}

std::optional<std::int64_t> least_by_trial(const StageLoads& loads, const StageLimits& limits) {
  std::optional<std::int64_t> least;
  Stages head;
  each_division(std::ssize(loads.layers), limits.stages, head, [&](const Stages& stages) {
    if (!fits(loads, limits, stages)) return;
    const std::int64_t time = longest_time(loads, stages);
    if (!least || time < *least) least = time;
  });
  return least;
}

StageLoads equal(std::int64_t layers, std::int64_t time, std::int64_t embeddings,
                 std::int64_t head) {
  StageLoads loads;
  loads.layers.assign(static_cast<std::size_t>(layers), {time, 0, 0});
  loads.embeddings.time = embeddings;
  loads.head.time = head;
  return loads;
}

Stages divided(const StageLoads& loads, std::int64_t stages) {
  const auto found = divide(loads, {.stages = stages});
  REQUIRE(found.has_value());
  return *found;
}

}  // namespace

TEST_CASE("the slowest stage is as fast as in the best of all divisions, within memory") {
  constexpr std::uint64_t kSeed = 3;
  int unequal = 0, without = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const core::Random random(kSeed, i);
    std::uint64_t at = 0;
    const auto draw = [&](std::int64_t below) {
      return static_cast<std::int64_t>(random.below(at++, static_cast<std::uint64_t>(below)));
    };
    const auto load = [&] { return StageLoad{1 + draw(9), draw(5), draw(4)}; };
    StageLoads loads;
    const StageLoad same = load();
    const bool alike = draw(2) == 0;
    const std::int64_t layers = 1 + draw(9), stages = 1 + draw(layers);
    for (std::int64_t l = 0; l < layers; ++l) loads.layers.push_back(alike ? same : load());
    loads.embeddings = load();
    loads.head = load();
    loads.working = draw(3);
    StageLimits limits{.stages = stages, .bytes = 6 + draw(60), .in_flight = {}};
    for (std::int64_t r = stages; r > 0; --r) limits.in_flight.push_back(r);
    const auto found = divide(loads, limits);
    const auto least = least_by_trial(loads, limits);
    INFO("seed " << kSeed << " case " << i);
    REQUIRE(found.has_value() == least.has_value());
    without += least ? 0 : 1;
    unequal += alike ? 0 : 1;
    if (!found) continue;
    CHECK(fits(loads, limits, *found));
    CHECK(longest_time(loads, *found) == *least);
  }
  CHECK(unequal > 1000);
  CHECK(without > 100);  // both answers were put to the test
}

// A plain dynamic program. Several divisions may have the fastest slowest stage; it returns the one
// whose last boundary is earliest, then the one before it, and so on.
static std::optional<Stages> earliest(const StageLoads& loads, const StageLimits& limits) {
  constexpr std::int64_t kNone = INT64_MAX;
  const auto p = static_cast<std::size_t>(limits.stages), n = loads.layers.size();
  std::vector<std::vector<std::int64_t>> least(p + 1, std::vector<std::int64_t>(n + 1, kNone));
  std::vector<std::vector<std::size_t>> from(p + 1, std::vector<std::size_t>(n + 1, 0));
  least[0][0] = 0;
  for (std::size_t r = 1; r <= p; ++r)
    for (std::size_t l = r; l <= n; ++l)
      for (std::size_t first = r - 1; first < l; ++first) {
        StageLoad s;
        const auto add = [&](const StageLoad& load) {
          s = {s.time + load.time, s.state + load.state, s.kept + load.kept};
        };
        for (std::size_t i = first; i < l; ++i) add(loads.layers[i]);
        if (r == 1) add(loads.embeddings);
        if (r == p) add(loads.head);
        const std::int64_t passes = limits.in_flight.empty() ? 1 : limits.in_flight[r - 1];
        if (s.state + loads.working + passes * s.kept > limits.bytes) continue;
        if (least[r - 1][first] == kNone) continue;
        const std::int64_t longest = std::max(least[r - 1][first], s.time);
        if (longest >= least[r][l]) continue;
        least[r][l] = longest;
        from[r][l] = first;
      }
  if (least[p][n] == kNone) return std::nullopt;
  Stages stages(p);
  for (std::size_t r = p, l = n; r > 0; l = from[r--][l])
    stages[r - 1] = static_cast<std::int64_t>(l - from[r][l]);
  return stages;
}

TEST_CASE("of equal divisions of unequal layers the one of the earliest boundaries is found") {
  constexpr std::uint64_t kSeed = 5;
  int found = 0, without = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const core::Random random(kSeed, i);
    std::uint64_t at = 0;
    const auto draw = [&](std::int64_t below) {
      return static_cast<std::int64_t>(random.below(at++, static_cast<std::uint64_t>(below)));
    };
    const auto load = [&] { return StageLoad{draw(9), draw(5), draw(4)}; };
    const std::int64_t layers = 3 + draw(25), stages = 1 + draw(layers);
    const std::vector<StageLoad> kinds{load(), load(), load()};
    const bool in_runs = draw(2) == 0;
    StageLoads loads;
    for (std::int64_t l = 0; l < layers; ++l)
      loads.layers.push_back(in_runs ? kinds[static_cast<std::size_t>(3 * l / layers)]
                                     : kinds[static_cast<std::size_t>(draw(3))]);
    loads.layers.front().time += 10;   // layers differ
    loads.embeddings = load();
    loads.head = load();
    StageLimits limits{.stages = stages, .bytes = 6 + draw(8 * layers), .in_flight = {}};
    for (std::int64_t r = stages; draw(2) == 0 && r > 0; --r) limits.in_flight.push_back(r);
    while (!limits.in_flight.empty() && std::ssize(limits.in_flight) < stages)
      limits.in_flight.push_back(1);
    INFO("seed " << kSeed << " case " << i);
    const auto expected = earliest(loads, limits);
    CHECK(divide(loads, limits) == expected);
    ++(expected ? found : without);
  }
  CHECK(found > 500);
  CHECK(without > 100);
}

// What the division of unequal layers relies on.
TEST_CASE("under no schedule does a stage keep more micro-batches than the one before it") {
  for (const ScheduleDef& def : kSchedules)
    for (std::int64_t p = 2; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 20; ++m) {
        if (in_v(def.schedule) || !schedule_takes(def.schedule, p, m)) continue;
        Strategy s;
        s.schedule = def.schedule;
        s.pipeline = p;
        s.grad_accum = m;
        INFO(name(s.schedule) << " p=" << p << " m=" << m);
        for (int r = 1; r < static_cast<int>(p); ++r)
          CHECK(schedule_of(s, r, m).in_flight() <= schedule_of(s, r - 1, m).in_flight());
      }
}

TEST_CASE("layers + 2 over the stages: the first and the last hold one layer less") {
  // As Llama 3.1 405B: 126 layers on 16 stages, the head less than a layer, the embeddings little.
  Stages expected(16, 8);
  expected.front() = expected.back() = 7;
  CHECK(divided(equal(126, 100, 1, 67), 16) == expected);
  // A head of 2.5 layers takes their place: 12 layers on 4 stages, 3.5 each and no less.
  CHECK(divided(equal(12, 100, 0, 250), 4) == Stages{3, 4, 4, 1});
}

TEST_CASE("without ends to speak of, equal layers are as even as can be") {
  CHECK(divided(equal(48, 100, 0, 0), 4) == Stages{12, 12, 12, 12});
  CHECK(divided(equal(50, 100, 0, 0), 4) == Stages{12, 13, 13, 12});
  CHECK(divided(equal(49, 100, 0, 0), 4) == Stages{12, 13, 12, 12});
  CHECK(divided(equal(33, 100, 0, 0), 2) == Stages{17, 16});
  CHECK(divided(equal(3, 100, 0, 900), 3) == Stages{1, 1, 1});
}

TEST_CASE("memory moves a boundary only where the fastest division does not fit") {
  StageLoads loads = equal(8, 10, 0, 0);
  for (StageLoad& layer : loads.layers) layer.kept = 1;
  StageLimits limits{.stages = 2, .bytes = 8, .in_flight = {2, 1}};
  CHECK(divide(loads, limits) == Stages{4, 4});
  limits.bytes = 6;  // three layers on the first stage, which keeps two micro-batches
  CHECK(divide(loads, limits) == Stages{3, 5});
  limits.bytes = 5;
  CHECK_FALSE(divide(loads, limits).has_value());
}

TEST_CASE("nanotron's stages take layers until their share of the cost is passed, head counted") {
  // A layer: 2048 x (4 x 2048 + 3 x 8192) = 67.1 M; the head: 2048 x 131,072 = 268 M, four layers.
  // Of 20 in all, four stages have 5 each: the first passes 5 with its sixth layer, the others 10
  // and 15 with the eleventh and sixteenth; one layer is left for the head's stage.
  models::ModelSpec spec;
  spec.family = models::Family::llama;
  spec.layers = 16;
  spec.hidden = 2048;
  spec.heads = spec.kv_heads = 32;
  spec.ffn_hidden = 8192;
  spec.vocab = 131072;
  CHECK(planner::stages_by_cost(spec, 4) == std::vector<std::int64_t>{6, 5, 4, 1});
  CHECK(planner::stages_by_cost(spec, 2) == std::vector<std::int64_t>{11, 5});
  CHECK(planner::stages_by_cost(spec, 1) == std::vector<std::int64_t>{16});
  CHECK(planner::stages_by_cost(spec, 16) == std::vector<std::int64_t>(16, 1));
  spec.vocab = 1;  // next to nothing for the head: four layers are not past a quarter of the cost
  CHECK(planner::stages_by_cost(spec, 4) == std::vector<std::int64_t>{5, 4, 4, 3});
}
