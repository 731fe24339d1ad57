// Congestion at network cards: all-to-alls whose messages meet at one node, and a pipeline's
// message that leaves by the same card as gradients do. Ports inside nodes are fast here and the
// node's network carries one byte a picosecond each way, so times can be worked out by hand.
#include <vector>

#include "sim/engine/wires.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/pipelines.hpp"

using engine::Cast;
using engine::MessagePlan;
using engine::Network;
using engine::Topology;
using engine::Wires;
using program::Algorithm;
using program::Collective;

namespace {

cost::Machine one_nic(int gpus_per_node) {
  cost::Machine m = engine_test::unit_machine();
  m.gpus_per_node = gpus_per_node;
  m.link = core::BytesPerSecond{1000e12};
  m.internode = core::BytesPerSecond{1e12};
  return m;
}

struct Exchange {
  const MessagePlan* plan = nullptr;
  std::vector<int> members{};
  std::int64_t start = 0;
};

// By exchange: when its last member is done. Links are looked at after every event.
std::vector<std::int64_t> ends(const Topology& topology, const std::vector<Exchange>& exchanges) {
  Wires wires(topology, engine::Sharing::shared);
  std::vector<Cast> casts;
  for (const Exchange& x : exchanges) casts.push_back(wires.cast(*x.plan, x.members));
  std::vector<std::int64_t> end(exchanges.size(), 0);
  std::vector<Wires::Done> done;
  const auto advance = [&] {
    const std::int64_t now = wires.next();
    done.clear();
    wires.advance(now, done);
    for (const Wires::Done& d : done) end[d.token] = now;
  };
  for (std::uint32_t i = 0; i < exchanges.size(); ++i) {
    while (wires.next() <= exchanges[i].start) advance();
    wires.start(i, *exchanges[i].plan, casts[i], exchanges[i].start);
  }
  double sent = 0, received = 0;
  std::int64_t last = 0;
  while (wires.next() != Network::kNever) {
    last = wires.next();
    advance();
  }
  for (std::uint32_t l = 0; l < topology.links().size(); ++l) {
    INFO(topology.name(l));
    CHECK(wires.carried(l) <= topology.links()[l].rate * static_cast<double>(last + 1));
  }
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    sent += wires.bytes_sent(rank);
    received += wires.bytes_received(rank);
  }
  CHECK(sent == received);
  return end;
}

MessagePlan all_to_all(int group, std::int64_t bytes) {
  return engine::message_plan(Collective::exchange, Algorithm::pairwise, group, bytes,
                              core::DType::u8);
}
MessagePlan message(double bytes) {
  MessagePlan plan;
  plan.messages.push_back({0, 1, bytes});
  return plan;
}

}  // namespace

TEST_CASE("an all-to-all takes what comes into a node at once, through the node's one NIC") {
  // Each of 6 ranks has 1,000 bytes for every other. Two receivers in a node get them from four
  // senders outside: 8,000 bytes into each node, and as many out of it.
  const Topology topology(6, one_nic(2), {});
  const MessagePlan plan = all_to_all(6, 6000);
  CHECK(ends(topology, {{&plan, {0, 1, 2, 3, 4, 5}}}) == std::vector<std::int64_t>{8000});
}

TEST_CASE("all-to-alls of groups whose members share nodes take turns at the NICs") {
  // Each node sends 2 x 1,000 bytes for one group. Two groups at once each get half of its network.
  const Topology topology(6, one_nic(2), {});
  const MessagePlan plan = all_to_all(3, 3000);
  CHECK(ends(topology, {{&plan, {0, 2, 4}}}) == std::vector<std::int64_t>{2000});
  CHECK(ends(topology, {{&plan, {0, 2, 4}}, {&plan, {1, 3, 5}}}) ==
        std::vector<std::int64_t>{4000, 4000});
}

TEST_CASE("incast at one node slows those who send there, and nobody else") {
  // Nodes of one rank. Three messages meet at rank 0; the fourth has links of its own.
  const Topology topology(6, one_nic(1), {});
  const MessagePlan one = message(1000);
  CHECK(ends(topology, {{&one, {1, 0}}, {&one, {2, 0}}, {&one, {3, 0}}, {&one, {4, 5}}}) ==
        std::vector<std::int64_t>{3000, 3000, 3000, 1000});
}

TEST_CASE("a pipeline's message beside a ring of gradients shares the sender's NIC") {
  // Ranks 0 and 1 reduce 4,000 bytes in two rounds of 2,000; rank 0 sends to the next stage too.
  const Topology topology(4, one_nic(1), {});
  const MessagePlan ring = engine::message_plan(Collective::all_reduce, Algorithm::ring, 2, 4000,
                                                core::DType::u8);
  const MessagePlan large = message(4000), small = message(500);
  CHECK(ends(topology, {{&ring, {0, 1}}}) == std::vector<std::int64_t>{4000});
  CHECK(ends(topology, {{&large, {0, 2}}}) == std::vector<std::int64_t>{4000});
  // Each has half of the NIC for as long as both are there.
  CHECK(ends(topology, {{&ring, {0, 1}}, {&large, {0, 2}}}) ==
        std::vector<std::int64_t>{8000, 8000});
  // The small one takes 500 / 0.5 = 1,000, in which the ring falls 500 behind; so it does whenever
  // the message comes.
  for (const std::int64_t start : {0, 700, 2000, 2900})
    CHECK(ends(topology, {{&ring, {0, 1}}, {&small, {0, 2}, start}}) ==
          std::vector<std::int64_t>{4500, start + 1000});
  // From rank 2 to rank 3 it shares no link with the ring.
  CHECK(ends(topology, {{&ring, {0, 1}}, {&large, {2, 3}}}) ==
        std::vector<std::int64_t>{4000, 4000});
}
