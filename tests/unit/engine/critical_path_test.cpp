// Where the time of a played step goes, found backwards in its record.
#include "sim/engine/critical_path.hpp"

#include <numeric>

#include "sim/engine/engine.hpp"
#include "sim/engine/sweep.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/random_programs.hpp"
#include "tests/unit/engine/small_space.hpp"

using engine::Outcome;
using engine::PathTimes;
using engine::Scene;
using engine_test::Lowered;
using engine_test::Space;

namespace {

std::int64_t sum(const PathTimes& path) {
  return std::accumulate(path.begin(), path.end(), std::int64_t{0});
}
std::size_t kind(std::string_view name) {
  for (std::size_t k = 0; k < engine::kPathKinds; ++k)
    if (engine::path_kind_name(k) == name) return k;
  return engine::kPathKinds;
}

struct Flowed {
  PathTimes path;
  std::int64_t makespan = 0;
};
Flowed flowed(const program::Program& p, const cost::Machine& machine,
              std::vector<engine::WeakLink> weak = {},
              engine::Sharing sharing = engine::Sharing::shared) {
  const Scene scene(p, machine, {.unfold = true});
  std::vector<engine::Played> record;
  engine::EngineOptions o;
  o.steps = 1;
  o.flows.emplace().weak = std::move(weak);
  o.flows->sharing = sharing;
  o.machine = &machine;
  o.record = &record;
  const Outcome played = engine::run(scene, o);
  return {engine::critical_path(scene, record, true), played.makespan()};
}

}  // namespace

TEST_CASE("the path found backwards is the sweep's, which carries it forwards") {
  int same = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const program::Program p = engine_test::random_program(seed);
    const Scene scene(p, engine_test::unit_machine());
    std::vector<engine::Played> record;
    engine::run(scene, {.steps = 1, .record = &record});
    const Outcome swept = engine::sweep(scene, {.steps = 1, .critical_path = true});
    const PathTimes path = engine::critical_path(scene, record, false);
    CHECK(sum(path) == swept.makespan());
    same += path == swept.critical_path;
  }
  CHECK(same >= 180);                  // else two chains end at the same picosecond
}

TEST_CASE("paths over shared wires sum to the step, for every way to exchange gradients") {
  const Space space = GENERATE(from_range(engine_test::exchanges()));
  const int visited = engine_test::each_candidate(space, [](const Lowered& c) {
    INFO(to_text(c.strategy));
    for (const auto sharing : {engine::Sharing::shared, engine::Sharing::exclusive}) {
      const Flowed f = flowed(c.program, c.question.machine, {}, sharing);
      CHECK(sum(f.path) == f.makespan);
      CHECK(f.path[kind("compute")] > 0);
    }
  });
  CHECK(visited > 0);
}

TEST_CASE("paths of random programs over shared wires sum to the step") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const Flowed f = flowed(engine_test::random_program(seed), engine_test::unit_machine());
    CHECK(sum(f.path) == f.makespan);
  }
}

TEST_CASE("contention shows on the path as the transfers that meet it") {
  const Space space{"gpt2-124m", "rtx3090", 4, 128, 8,
                    {"data=4", "sharding=none", "checkpoint=none", "micro_batch=2"}};
  engine_test::each_candidate(space, [](const Lowered& c) {
    const Flowed usual = flowed(c.program, c.question.machine);
    const Flowed weak = flowed(c.program, c.question.machine, {{2, 0.25}});
    // The ring waits for its weak port: gradients take the whole of what the step grows by, and
    // computation, which no wire slows, none.
    const auto gradients = kind("gradients");
    CHECK(weak.path[gradients] > usual.path[gradients]);
    CHECK(weak.path[kind("compute")] <= usual.path[kind("compute")]);
    CHECK(weak.makespan - usual.makespan <= weak.path[gradients] - usual.path[gradients]);
  });
}
