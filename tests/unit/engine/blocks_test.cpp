// A scene cut into blocks: how it is cut, and that neither the cut nor the number of threads shows.
#include "sim/engine/blocks.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/sweep.hpp"
#include "sim/engine/trace.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/no_threads.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/random_programs.hpp"
#include "tests/unit/engine/small_space.hpp"

using engine::Blocks;
using engine::Outcome;
using engine::Played;
using engine::Scene;

namespace {

// All that both evaluators say of a scene: accounts, records, critical path, the trace's bytes.
struct Everything {
  Outcome played, swept;
  std::vector<Played> record;
  std::string trace;
};

struct How {
  std::uint32_t block_actors = engine::kAbsent;
  int threads = 1;
};

Everything play(const Scene& scene, const How& how) {
  Everything all;
  all.played = engine::run(scene, {.threads = how.threads, .block_actors = how.block_actors,
                                   .record = &all.record});
  all.swept = engine::sweep(scene, {.critical_path = true, .threads = how.threads,
                                    .block_actors = how.block_actors});
  if (scene.draining_steps() > 0) return all;
  const auto trace = engine::write_trace(scene, all.record, {});
  REQUIRE(trace.ok());
  all.trace = trace->bytes;
  return all;
}

bool same(const Played& a, const Played& b) {
  return a.actor == b.actor && a.operation == b.operation && a.micro_batch == b.micro_batch &&
         a.start == b.start && a.finish == b.finish;
}

void equal(const Everything& a, const Everything& b) {
  REQUIRE(a.played.accounts == b.played.accounts);
  REQUIRE(a.played.operations == b.played.operations);
  REQUIRE(a.swept.accounts == b.swept.accounts);
  REQUIRE(a.swept.operations == b.swept.operations);
  REQUIRE(a.swept.critical_path == b.swept.critical_path);
  REQUIRE(std::ranges::equal(a.record, b.record, same));
  REQUIRE(a.trace == b.trace);
}

// Links that differ: nodes of two ranks, a slow network.
cost::Machine two_per_node() {
  cost::Machine m = engine_test::unit_machine();
  m.gpus_per_node = 2;
  m.internode = core::BytesPerSecond{0.3e12};
  m.internode_latency = core::Seconds{400e-12};
  return m;
}

}  // namespace

TEST_CASE("neither the cut nor the threads show: random programs, to the order of the record") {
  std::size_t cut = 0, borders = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const program::Program p = engine_test::random_program(seed);
    const cost::Machine machine = two_per_node();
    const engine::SceneOptions plain{.unfold = true, .parts = true};
    engine::SceneOptions slow = plain;
    slow.stragglers = {{p.mesh.ranks() - 1, 1.5, 0.5}};
    engine::SceneOptions jitter = plain;
    jitter.jitter = 0.1;
    jitter.seed = seed;
    for (const engine::SceneOptions& options : {plain, slow, jitter}) {
      const Scene scene(p, machine, options);
      const Everything whole = play(scene, {});
      for (const std::uint32_t most : {1, 2, 5}) {
        INFO("blocks of " << most);
        const Blocks blocks(scene, most);
        cut += blocks.all().size() > 1 ? 1 : 0;
        borders += blocks.borders().size();
        for (const int threads : {1, 2, 3}) equal(whole, play(scene, {most, threads}));
      }
    }
  }
  CHECK(cut > 200);                    // there was something to cut
  CHECK(borders > 800);
}

TEST_CASE("pipelines stay whole, and borders are the collectives between them") {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const program::Program p = engine_test::random_program(seed);
    const Scene scene(p, two_per_node(), {.unfold = true});
    const Blocks blocks(scene, 1);
    CHECK(blocks.all().size() == static_cast<std::size_t>(p.mesh.data));
    std::size_t actors = 0;
    for (const engine::Block& block : blocks.all()) {
      actors += block.actors.size();
      for (const std::uint32_t a : block.actors) {
        const engine::Actor& actor = scene.actors()[a];
        for (std::uint16_t i = 0; i < scene.timetable(actor).points().size(); ++i) {
          const engine::Seat& seat = blocks.seats(actor)[i];
          if (seat.channel == engine::kAbsent) continue;
          const engine::Place& place = block.places[seat.channel];
          const engine::Channel& channel =
              scene.channels()[scene.seats()[actor.first_seat + i].channel];
          CHECK(place.kind == channel.kind);
          CHECK((place.border == engine::kAbsent) == (place.parties == channel.parties));
          if (place.border == engine::kAbsent) continue;
          CHECK(place.kind == engine::ChannelKind::collective);
          CHECK(blocks.borders()[place.border].shortest > 0);
          CHECK(blocks.borders()[place.border].blocks == blocks.all().size());
          ++checked;
        }
      }
    }
    CHECK(actors == scene.actors().size());
  }
  CHECK(checked > 200);
}

TEST_CASE("actors that meet most often share a block; a scene of little work is not cut") {
  // Four groups of two by tensor, which meet in every layer; all eight ranks by data, once a step.
  const engine_test::Space space{"gpt2-124m", "h100-sxm-80g", 8, 256, 16,
                                 {"tensor=2", "data=4", "sharding=zero1", "checkpoint=none"}};
  engine_test::each_candidate(space, [](const engine_test::Lowered& c) {
    const Scene scene(c.program, c.question.machine, {.unfold = true});
    const Blocks blocks(scene, 2);
    REQUIRE(blocks.all().size() == 4);
    for (const engine::Block& block : blocks.all()) {
      REQUIRE(block.actors.size() == 2);
      const auto rank = [&](std::size_t i) { return scene.actors()[block.actors[i]].rank; };
      CHECK(c.program.mesh.members(program::Group::tensor, rank(0)) ==
            std::vector<int>{rank(0), rank(1)});
    }
    CHECK(engine::blocks_for(scene, 2, 0).all().size() == 1);
  });
}

TEST_CASE("where threads are refused, those that there are play all blocks") {
  const program::Program p = engine_test::random_program(7);
  const Scene scene(p, two_per_node(), {.unfold = true, .parts = true});
  const Everything whole = play(scene, {});
  for (int allowed = 0; allowed <= 2; ++allowed) {
    const no_threads::Only only(allowed);
    equal(whole, play(scene, {1, 8}));
  }
}

namespace {

// Two ranks whose gradient stream reduces at once, although the work that is issued before it takes
// `kernels` operations of the compute stream.
class ReducesEarly : public program_test::Builder {
 public:
  explicit ReducesEarly(int kernels) {
    const auto reduced = buffer("g", program::Term::gradients, {64}, 1, 1, true);
    std::vector<std::uint16_t> works;
    for (int i = 0; i < kernels; ++i) {
      const auto into = buffer("k", program::Term::activations, {1000}, 1, 1, true);
      const auto done = event("done");
      works.push_back(block("work"));
      act(program::ActionKind::zero, {program_test::whole(into)}).signal(program_test::at(done));
    }
    const auto sum = transfer({program::Collective::all_reduce, program::Algorithm::ring,
                               program::Traffic::gradients, program::Group::data,
                               program::ReduceOp::sum, core::DType::u8, 0});
    works.push_back(block("reduce"));
    act(program::ActionKind::collective, {program_test::whole(reduced)}, program::Stream::gradient,
        sum);
    for (const std::uint16_t id : works) k.forward.push_back(call(id));
  }
};

}  // namespace

TEST_CASE("work that could have started before it was issued is played again, across blocks too") {
  program::Program p;
  p.mesh.data = 2;
  p.classes.push_back(ReducesEarly(40).k);
  REQUIRE(program::check(p).empty());
  const Scene scene(p, two_per_node(), {.unfold = true, .parts = true});
  const Everything whole = play(scene, {}), apart = play(scene, {1, 2});
  CHECK(Blocks(scene, 1).borders().size() == 1);
  equal(whole, apart);
  for (const Played& x : apart.record)
    if (scene.timetables().front().operation(x.operation).work == engine::Work::transfer)
      CHECK(x.start % 40'000 == 0);    // as soon as its step begins
}
