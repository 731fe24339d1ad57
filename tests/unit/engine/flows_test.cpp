// Whole steps with their transfers as messages on wires.
#include <cmath>

#include "sim/engine/engine.hpp"
#include "sim/engine/sweep.hpp"
#include "sim/program/traffic.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"
#include "tests/unit/engine/small_space.hpp"
#include "tests/unit/engine/timed_stages.hpp"

using engine::Outcome;
using engine::Scene;
using engine_test::Lowered;
using engine_test::Space;

namespace {

Outcome flows(const program::Program& p, const cost::Machine& machine,
              engine::FlowOptions options = {}, int steps = 1) {
  const Scene scene(p, machine, {.unfold = true});
  return engine::run(scene, {.steps = steps, .flows = std::move(options), .machine = &machine});
}

// Wire bytes of a rank in a step, by the Program's own count.
double counted(const program::Program& p, int rank) {
  double all = 0;
  for (const program::TrafficEntry& e : program::rank_traffic(p, rank))
    all += static_cast<double>(e.wire.value());
  return all;
}

void counts_agree(const program::Program& p, const Outcome& o) {
  double sent = 0, received = 0;
  for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
    INFO("rank " << rank);
    CHECK(o.wire_sent[static_cast<std::size_t>(rank)] == counted(p, rank));
    sent += o.wire_sent[static_cast<std::size_t>(rank)];
    received += o.wire_received[static_cast<std::size_t>(rank)];
  }
  CHECK(sent == received);
}

}  // namespace

TEST_CASE("simulated wire counters are the laws' for every way to exchange gradients") {
  const Space space = GENERATE(from_range(engine_test::exchanges()));
  const int visited = engine_test::each_candidate(space, [](const Lowered& c) {
    INFO(to_text(c.strategy));
    counts_agree(c.program, flows(c.program, c.question.machine));
    counts_agree(c.program,
                 flows(c.program, c.question.machine, {.sharing = engine::Sharing::exclusive}));
  });
  CHECK(visited > 0);
}

TEST_CASE("rings that have their wires to themselves take what the cost model says") {
  const Space space = GENERATE(
      Space{"gpt2-124m", "a100-sxm-80g", 4, 128, 8, {"data=4", "sharding=none"}},
      Space{"gpt2-124m", "h100-sxm-80g", 4, 128, 8, {"pipeline=4", "schedule=1f1b"}},
      Space{"gpt2-124m", "a100-sxm-80g", 4, 128, 8, {"tensor=4"}},
      Space{"gpt2-124m", "v100-sxm-32g", 4, 128, 8, {"data=4", "sharding=none"}},
      Space{"gpt2-124m", "v100-sxm-32g", 4, 128, 8, {"pipeline=4", "schedule=1f1b"}});
  engine_test::each_candidate(space, [](const Lowered& c) {
    INFO(to_text(c.strategy));
    for (const bool plain : {true, false}) {  // without NCCL's protocols, and with them
      cost::Machine machine = c.question.machine;
      if (plain) machine.fabric.reset();
      const auto timed = engine::sweep(Scene(c.program, machine), {.steps = 1}).makespan();
      const auto played = flows(c.program, machine).makespan();
      // Each step of a ring ends on a whole picosecond.
      CHECK(static_cast<double>(std::abs(played - timed)) <= static_cast<double>(timed) * 1e-6);
    }
  });
}

TEST_CASE("a weak port slows the step, and flows give the same outcome every time") {
  const program::Program p = engine_test::two_stages(4);
  cost::Machine machine = round_machine();
  machine.link = core::BytesPerSecond{1e6};
  machine.gpus_per_node = 8;
  const Outcome usual = flows(p, machine), again = flows(p, machine);
  CHECK(usual.accounts == again.accounts);
  const Outcome weak = flows(p, machine, {.weak = {{3, 0.25}}});
  CHECK(weak.makespan() > usual.makespan());
}

TEST_CASE("with one server all workers' gradients meet at one port; more servers spread them") {
  const auto step = [](std::vector<const char*> pins) {
    std::int64_t time = 0;
    pins.push_back("checkpoint=none");
    pins.push_back("micro_batch=1");
    pins.push_back("data=8");
    const Space space{"gpt2-124m", "rtx3090", 8, 64, 8, pins};
    engine_test::each_candidate(space, [&](const Lowered& c) {
      time = flows(c.program, c.question.machine).makespan();
    });
    REQUIRE(time > 0);
    return time;
  };
  const auto one = step({"grad_sync=parameter_server", "servers=1"});
  const auto four = step({"grad_sync=parameter_server", "servers=4"});
  const auto eight = step({"grad_sync=parameter_server", "servers=8"});
  const auto ring = step({"grad_sync=ring", "sharding=none"});
  CHECK(one > 2 * four);
  CHECK(four > eight);
  CHECK(one > 3 * ring);
}
