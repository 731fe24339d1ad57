// Execution traces written, read and played: what the engine says, to the picosecond and the byte.
#include "sim/engine/engine.hpp"
#include "sim/engine/sweep.hpp"
#include "sim/program/traffic.hpp"
#include "tests/unit/engine/chakra_files.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/random_programs.hpp"
#include "tests/unit/engine/small_space.hpp"

using engine::Scene;
using engine_test::Lowered;
using engine_test::Space;

namespace {

constexpr double kMostOperations = 2e4;  // of all ranks: many small steps tell more than one large

void same_time(const Scene& scene, const engine::ChakraOutcome& played) {
  const engine::Outcome swept = engine::sweep(scene);
  CHECK(played.makespan == swept.makespan());
  CHECK(played.period == engine::critical_terms(swept).period);
  const auto& fold = scene.fold().of;
  REQUIRE(played.periods.size() == fold.size());
  for (std::size_t rank = 0; rank < fold.size(); ++rank)
    CHECK(played.periods[rank] ==
          engine::terms_of(swept, static_cast<std::size_t>(fold[rank])).period);
  CHECK(played.period == played.compute + played.exposed_communication + played.waiting);
}

// Entries of servers are messages in traces; all others are the Program's own count.
void same_bytes(const program::Program& p, const std::vector<engine::ChakraTraffic>& traffic) {
  std::size_t found = 0;
  for (const program::TrafficEntry& e : program::traffic(p)) {
    if (e.collective.starts_with("parameter_server")) continue;
    INFO(name(e.what) << ' ' << e.collective);
    const auto at = std::ranges::find_if(traffic, [&](const engine::ChakraTraffic& t) {
      return t.what == name(e.what) && t.collective == e.collective &&
             t.algorithm == name(e.algorithm) && t.group_size == e.group_size;
    });
    REQUIRE(at != traffic.end());
    ++found;
    CHECK(at->count == e.count);
    CHECK(at->payload == e.payload.value());
    CHECK(at->wire == e.wire.value());
    CHECK(at->busiest_rank == e.busiest_rank);
  }
  if (p.servers == 0) CHECK(found == traffic.size());
}

void round_trip(const program::Program& p, const cost::Machine& machine) {
  const Scene scene(p, machine, {.parts = true});
  const auto files = engine_test::read_back(engine_test::written(scene));
  const auto recorded = engine::match_chakra(files.traces, files.groups, nullptr);
  INFO((recorded.ok() ? "" : core::to_text(recorded.problems())));
  REQUIRE(recorded.ok());
  const auto played = engine::play_chakra(files.traces, *recorded);
  REQUIRE(played.ok());
  same_time(scene, *played);
  same_bytes(p, recorded->traffic);
  if (p.servers > 0) return;           // whose group's place two ranks do not tell
  const auto costed = engine::match_chakra(files.traces, files.groups, &machine);
  REQUIRE(costed.ok());
  same_time(scene, engine::play_chakra(files.traces, *costed).value());
}

}  // namespace

TEST_CASE("a plan's traces take its step and move its bytes, as recorded and as costed anew") {
  const Space space = GENERATE(
      Space{"gpt2-124m", "a100-sxm-80g", 8, 256, 16, {}, 8, 149},
      Space{"gpt2-124m", "rtx3090", 12, 128, 24, {"checkpoint=none"}, 4, 83},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 16, {"schedule=interleaved", "pipeline=4"}, 8, 97},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 32, {"schedule=zb_h1", "pipeline=4"}, 8, 43},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16, {"grad_sync=tree"}, 8, 61},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16, {"grad_sync=naive_all_reduce"}, 8, 61},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8, {"offload=optimizer"}, 8, 3},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16, {"grad_sync=parameter_server", "servers=2"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8, {"grad_sync=parameter_server", "servers=4"}},
      Space{"gpt2-124m", "rtx3090", 8, 128, 12,
            {"grad_sync=parameter_server", "servers=2", "servers_colocated=false"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8,
            {"grad_sync=parameter_server", "servers=2", "servers_colocated=false",
             "server_mode=async"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8,
            {"grad_sync=parameter_server", "servers=2", "server_mode=async"}});
  INFO(space.model << " on " << space.gpus << " x " << space.gpu);
  int played = 0;
  engine_test::each_candidate(space, [&](const Lowered& c) {
    INFO(to_text(c.strategy));
    if (Scene(c.program, c.question.machine, {.unfold = true}).operations() > kMostOperations)
      return;
    round_trip(c.program, c.question.machine);
    ++played;
  });
  CHECK(played > 0);
}

TEST_CASE("traces of exchanged heads and of rings take the step of their plan") {
  // Chakra has no ring of sends: each is a message to one rank and one from another.
  const Space space = GENERATE(
      Space{"gpt2-124m", "rtx3090", 4, 128, 4, {"context=4", "context_method=ring"}, 4, 5},
      Space{"gpt2-124m", "rtx3090", 4, 128, 4, {"context=4", "context_method=exchange"}, 4, 5});
  int played = 0;
  engine_test::each_candidate(space, [&](const Lowered& c) {
    INFO(to_text(c.strategy));
    const Scene scene(c.program, c.question.machine, {.parts = true});
    const auto files = engine_test::read_back(engine_test::written(scene));
    const auto recorded = engine::match_chakra(files.traces, files.groups, nullptr);
    INFO((recorded.ok() ? "" : core::to_text(recorded.problems())));
    REQUIRE(recorded.ok());
    same_time(scene, engine::play_chakra(files.traces, *recorded).value());
    std::int64_t wire = 0, expected = 0;
    for (const engine::ChakraTraffic& t : recorded->traffic)
      if (t.what == "context") wire += t.wire;
    for (const program::TrafficEntry& e : program::traffic(c.program))
      if (e.what == program::Traffic::context) expected += e.wire.value();
    CHECK(wire == expected);
    ++played;
  });
  CHECK(played > 0);
}

TEST_CASE("random sound programs survive being written and read") {
  cost::Machine machine = engine_test::unit_machine();
  machine.gpus_per_node = 2;
  machine.internode = core::BytesPerSecond{0.3e12};
  machine.internode_latency = core::Seconds{400e-12};
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    INFO("seed " << seed);
    const program::Program p = engine_test::random_program(seed);
    round_trip(p, machine);
  }
}

TEST_CASE("a straggler's traces keep its slowdown") {
  const program::Program p = engine_test::random_program(7);
  const Scene usual(p, engine_test::unit_machine(), {.parts = true});
  const Scene slow(p, engine_test::unit_machine(), {.parts = true, .stragglers = {{0, 3.0}}});
  const auto play = [](const Scene& scene) {
    const auto files = engine_test::read_back(engine_test::written(scene));
    return engine::play_chakra(files.traces,
                               engine::match_chakra(files.traces, files.groups, nullptr).value())
        .value();
  };
  same_time(slow, play(slow));
  CHECK(play(slow).period > play(usual).period);
}
