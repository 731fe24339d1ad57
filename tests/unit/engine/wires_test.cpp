// Rings that are stepped together, and taken apart when somebody else comes.
#include "sim/engine/wires.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "sim/engine/ring_course.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/pipelines.hpp"

using engine::Network;
using engine::RingCourse;

namespace {

// Every message by the recurrence, one after another: ends[s][r].
std::vector<std::vector<std::int64_t>> every_end(const std::vector<std::int64_t>& takes,
                                                 std::int64_t rounds) {
  std::vector<std::vector<std::int64_t>> ends;
  std::vector<std::int64_t> before(takes.size(), 0);
  for (std::int64_t s = 0; s < rounds; ++s) {
    std::vector<std::int64_t> now;
    for (std::size_t r = 0; r < takes.size(); ++r)
      now.push_back(std::max(before[r], before[(r + takes.size() - 1) % takes.size()]) + takes[r]);
    ends.push_back(now);
    before = now;
  }
  return ends;
}

std::vector<std::int64_t> random_takes(const core::Random& random, std::size_t edges,
                                       std::uint64_t most) {
  std::vector<std::int64_t> takes;
  for (std::size_t r = 0; r < edges; ++r)
    takes.push_back(1 + static_cast<std::int64_t>(random.below(r, most)));
  return takes;
}

struct Played {
  std::vector<std::int64_t> at;        // by member of the ring: when it is done
  std::vector<double> carried;         // by link
  std::uint64_t together = 0;
};

// A ring over six ranks of two nodes. disturbed: when an exchange of no bytes starts over links of
// the ring, which takes it apart but needs nothing; < 0: never.
Played play(std::int64_t elements, std::int64_t disturbed) {
  cost::Machine machine = engine_test::unit_machine();
  machine.gpus_per_node = 3;
  machine.internode = core::BytesPerSecond{0.37e12};
  machine.link_latency = core::Seconds{17e-12};
  machine.internode_latency = core::Seconds{301e-12};
  const engine::Topology topology(6, machine, {});
  engine::Wires wires(topology, engine::Sharing::shared);
  const engine::MessagePlan ring =
      engine::message_plan(program::Collective::all_reduce, program::Algorithm::ring, 6, elements,
                           core::DType::u8);
  engine::MessagePlan nothing;
  nothing.messages.push_back({0, 1, 0});
  const engine::Cast cast = wires.cast(ring, {0, 1, 2, 3, 4, 5});
  const engine::Cast beside = wires.cast(nothing, {2, 3});
  wires.start(1, ring, cast, 0, 5);
  std::vector<engine::Wires::Done> done;
  Played p{std::vector<std::int64_t>(6, -1), {}, 0};
  const auto advance = [&](std::int64_t now) {
    done.clear();
    wires.advance(now, done);
    for (const engine::Wires::Done& d : done)
      if (d.token == 1) p.at[static_cast<std::size_t>(d.member)] = now;
  };
  while (disturbed >= 0 && wires.next() <= disturbed) advance(wires.next());
  if (disturbed >= 0) wires.start(2, nothing, beside, disturbed);
  while (wires.next() != Network::kNever) advance(wires.next());
  for (std::uint32_t l = 0; l < topology.links().size(); ++l) p.carried.push_back(wires.carried(l));
  p.together = wires.stepped_together();
  return p;
}

}  // namespace

TEST_CASE("the course of a ring is its recurrence, however long its edges take") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const core::Random random(seed, 3);
    const std::size_t edges = 1 + random.below(100, 9);
    const auto rounds = static_cast<std::int64_t>(1 + random.below(101, 60));
    const auto takes = random_takes(random, edges, seed % 2 == 0 ? 4 : 1000);
    const auto ends = every_end(takes, rounds);
    REQUIRE(RingCourse(takes, rounds).ends() == ends.back());
    const std::int64_t last = *std::ranges::max_element(ends.back());
    for (std::uint64_t i = 0; i < 40; ++i) {
      const auto time =
          static_cast<std::int64_t>(random.below(200 + i, static_cast<std::uint64_t>(last) + 3));
      INFO("at " << time);
      const auto states = RingCourse::at(takes, rounds, time);
      for (std::size_t r = 0; r < edges; ++r) {
        std::int64_t ended = 0;
        while (ended < rounds && ends[static_cast<std::size_t>(ended)][r] <= time) ++ended;
        REQUIRE(states[r].ended == ended);
        const auto before = static_cast<std::size_t>(ended - 1);
        const std::int64_t start =
            ended == 0 ? 0
                       : std::max(ends[before][r], ends[before][(r + edges - 1) % edges]);
        REQUIRE(states[r].set_out ==
                (ended < rounds && start <= time ? start : RingCourse::kNot));
      }
    }
  }
}

TEST_CASE("a ring that is taken apart ends to the picosecond as if it had not been") {
  const std::int64_t elements = 6 * 1234;
  const Played alone = play(elements, -1);
  CHECK(alone.together == 1);
  const std::int64_t last = *std::ranges::max_element(alone.at);
  for (std::int64_t time = 0; time <= last; time += 1 + last / 500) {
    INFO("taken apart at " << time);
    const Played apart = play(elements, time);
    REQUIRE(apart.at == alone.at);
    REQUIRE(apart.carried == alone.carried);
    CHECK(apart.together == (time == last ? 1 : 0));
  }
}

TEST_CASE("what goes into a link comes out: every link of a ring's path carries its bytes") {
  const Played p = play(6 * 1000, 777);
  // Ten rounds of 1000 bytes over each port, and over each node's network, both ways.
  REQUIRE(p.carried.size() == 16);
  for (const double bytes : p.carried) CHECK(bytes == 10'000);
}
