// Random sound Programs: both evaluators, folded and unfolded, against a second opinion.
#include "tests/unit/engine/random_programs.hpp"

#include "sim/engine/engine.hpp"
#include "sim/engine/sweep.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/pipelines.hpp"

using engine::Outcome;
using engine::Scene;
using engine_test::SecondOpinion;

namespace {

// Links that differ: nodes of two ranks, a slow network.
cost::Machine uneven_machine() {
  cost::Machine m = engine_test::unit_machine();
  m.gpus_per_node = 2;
  m.internode = core::BytesPerSecond{0.3e12};
  m.link_latency = core::Seconds{30e-12};
  m.internode_latency = core::Seconds{400e-12};
  return m;
}

void agree(const program::Program& p, const cost::Machine& machine, const SecondOpinion& second) {
  for (const bool unfold : {false, true}) {
    INFO((unfold ? "unfolded" : "folded"));
    const Scene scene(p, machine, {.unfold = unfold});
    std::vector<engine::Played> record;
    const Outcome swept = engine::sweep(scene, {.critical_path = true});
    const Outcome played = engine::run(scene, {.record = &record});
    REQUIRE(swept.accounts == played.accounts);
    for (int r = 0; r < p.mesh.ranks(); ++r) {
      INFO("rank " << r);
      const auto actor = static_cast<std::size_t>(scene.fold().of[static_cast<std::size_t>(r)]);
      REQUIRE(swept.account(actor, 0).finish == second.finish(r));
    }
    std::int64_t path = 0;
    for (const std::int64_t part : swept.critical_path) path += part;
    CHECK(path == swept.makespan());
    CHECK(swept.makespan() >= second.busiest_stream());
    // No two operations on a stream at once.
    std::map<std::pair<std::uint32_t, int>, std::int64_t> busy_until;
    for (const engine::Played& x : record) {
      const auto& table = scene.timetable(scene.actors()[x.actor]);
      const int stream = static_cast<int>(table.operation(x.operation).stream);
      std::int64_t& until = busy_until[{x.actor, stream}];
      CHECK(x.start >= until);
      until = x.finish;
    }
  }
}

}  // namespace

TEST_CASE("random sound programs take what a second opinion says, to the picosecond") {
  int sound = 0, folded = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const program::Program p = engine_test::random_program(seed);
    INFO("seed " << seed << ", " << p.mesh.pipeline << " stages of " << p.mesh.data);
    const core::Problems problems = program::check(p);
    INFO(core::to_text(problems));
    REQUIRE(problems.empty());
    ++sound;
    const cost::Machine even = engine_test::unit_machine();
    const SecondOpinion second(p, even);
    agree(p, even, second);
    const cost::Machine uneven = uneven_machine();
    agree(p, uneven, SecondOpinion(p, uneven));
    folded += Scene(p, uneven).fold().count() < p.mesh.ranks() ? 1 : 0;
  }
  CHECK(sound == 300);
  CHECK(folded > 100);                 // folding had something to do
}

TEST_CASE("random programs send what they receive, over wires that are shared or taken in turn") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const program::Program p = engine_test::random_program(seed);
    INFO("seed " << seed);
    const cost::Machine machine = uneven_machine();
    const Scene scene(p, machine, {.unfold = true});
    for (const auto sharing : {engine::Sharing::shared, engine::Sharing::exclusive}) {
      const Outcome o = engine::run(scene, {.steps = 1,
                                            .flows = engine::FlowOptions{.sharing = sharing},
                                            .machine = &machine});
      double sent = 0, received = 0;
      for (int r = 0; r < p.mesh.ranks(); ++r) {
        const auto rank = static_cast<std::size_t>(r);
        double wire = 0;
        for (const auto& e : program::rank_traffic(p, r))
          wire += static_cast<double>(e.wire.value());
        CHECK(o.wire_sent[rank] == wire);
        // No port sends faster than it can, nor receives.
        const double most = std::max(o.wire_sent[rank], o.wire_received[rank]);
        CHECK(static_cast<double>(o.makespan()) >= most / machine.link.value() * 1e12 - 1);
        sent += o.wire_sent[rank];
        received += o.wire_received[rank];
      }
      CHECK(sent == received);
    }
  }
}
