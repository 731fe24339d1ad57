// Checkpoints that are written behind the steps, over the links that the steps' messages use.
#include <map>

#include "core/random.hpp"
#include "sim/engine/symmetry.hpp"
#include "tests/unit/engine/folded_flows.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/random_programs.hpp"

using engine::LinkKind;
using engine::Outcome;
using engine::Topology;
using engine::Writes;
using engine_test::flows_over;
using hw_profiles::Fabric;

namespace {

constexpr std::int64_t kForward = 300, kBackward = 700, kMessage = 1000, kKernels = 2 * 1000 + 50;

// Two stages on two nodes whose networks carry one byte a picosecond: one micro-batch, a message
// of kMessage bytes there and one back.
program::Program two_nodes() {
  return engine_test::pipeline(planner::Schedule::one_f_one_b, 2, 1, 1,
                               {kForward, kBackward, 0, 50, kMessage});
}
cost::Machine one_nic(int gpus_per_node) {
  cost::Machine m = engine_test::unit_machine();
  m.gpus_per_node = gpus_per_node;
  m.link = core::BytesPerSecond{1000e12};
  return m;
}

Outcome written(double rate, std::vector<double> bytes, bool to_nodes = false) {
  const program::Program p = two_nodes();
  const cost::Machine machine = one_nic(1);
  Topology topology(2, machine, {});
  if (!to_nodes) topology.add_storage(core::BytesPerSecond{rate * 1e12});
  const Writes writes{std::move(bytes), to_nodes};
  return flows_over(p, machine, topology, nullptr, &writes);
}

Fabric three_tiers() {
  Fabric f;
  f.nics_per_node = 4;
  f.nic_bandwidth = core::BytesPerSecond{1e12};
  f.switch_latency = core::Seconds{100e-12};
  f.link_bandwidth = core::BytesPerSecond{1e12};
  f.spines = 2;
  f.leaves = 2;
  f.cores = 2;
  return f;
}

std::map<std::string, double> parts(const Topology& t, int rank, bool to_node = false) {
  engine::Route route;
  t.route_write(rank, to_node, route);
  std::map<std::string, double> parts;
  for (const auto& hop : route.hops) parts[t.name(hop.link)] = hop.weight;
  return parts;
}

}  // namespace

TEST_CASE("a checkpoint takes its share of a NIC for as long as it is on its way") {
  const std::int64_t alone = kKernels + 2 * kMessage;
  const Outcome none = written(100, {0, 0});
  CHECK(none.makespan() == alone);
  CHECK(none.written.empty());

  // Endless: each message has half of its sender's NIC, and the checkpoint the other half.
  const Outcome endless = written(100, {1e9, 1e9});
  CHECK(endless.makespan() == kKernels + 4 * kMessage);
  REQUIRE(endless.written.size() == 2);
  CHECK(endless.written_at == -1);
  CHECK(endless.written[0].time == endless.makespan());
  CHECK(endless.written[0].bytes == 2.0 * (kKernels + 4 * kMessage) - 2 * kMessage);
  CHECK(endless.written[1].bytes == 2 * endless.written[0].bytes);
  CHECK(endless.wire_sent == none.wire_sent);

  // Storage that takes half a byte a picosecond leaves three quarters of each NIC.
  const Outcome slow = written(0.5, {1e9, 1e9});
  CHECK(slow.makespan() == kKernels + 2 * 1334);
  CHECK(slow.written[1].bytes == 0.5 * static_cast<double>(slow.written[1].time));

  // Over before the first message begins.
  const Outcome small = written(100, {200, 100});
  CHECK(small.accounts == none.accounts);
  CHECK(small.written_at == 200);
  CHECK(small.written[0].bytes == 300);
}

TEST_CASE("a checkpoint that ends within a message leaves the rest of it the whole link") {
  // The message begins at 300, when 700 bytes of rank 0's checkpoint are left: both have half of
  // the NIC until 1,700, and the message's last 300 bytes have all of it.
  const Outcome o = written(100, {1000, 0});
  CHECK(o.written_at == 1700);
  CHECK(o.makespan() == kKernels + 2 * kMessage + 700);
}

TEST_CASE("copies to the host of another node meet the messages that go there") {
  // Rank 0's copy leaves by its NIC and comes in by rank 1's; the message back crosses neither.
  const Outcome o = written(0, {1e9, 0}, true);
  CHECK(o.makespan() == kKernels + 3 * kMessage);
}

TEST_CASE("checkpoints go over the rank's NIC and all ways up to storage") {
  Topology plain(4, one_nic(2), {});
  plain.add_storage(core::BytesPerSecond{1e12});
  CHECK(parts(plain, 3) == std::map<std::string, double>{{"node 1 out", 1}, {"storage in", 1}});
  CHECK(parts(plain, 3, true) ==
        std::map<std::string, double>{{"node 1 out", 1}, {"node 0 in", 1}});

  Topology clos(16, one_nic(4), {}, three_tiers(), 1);
  clos.add_storage(core::BytesPerSecond{1e12});
  CHECK(parts(clos, 5) == std::map<std::string, double>{{"node 1 NIC 1 out", 1},
                                                        {"leaf 1 to spine 0", 0.5},
                                                        {"leaf 1 to spine 1", 0.5},
                                                        {"spine 0 to core 0", 0.25},
                                                        {"spine 0 to core 1", 0.25},
                                                        {"spine 1 to core 2", 0.25},
                                                        {"spine 1 to core 3", 0.25},
                                                        {"storage in", 1}});
  engine::Route route;
  clos.route_write(5, false, route);
  CHECK(route.latency == 2 * 100);
  CHECK(clos.tier(route.hops.back().link) == "storage in");

  Fabric torus = three_tiers();
  torus.shape = hw_profiles::Shape::torus;
  torus.dimensions = {2, 2};
  Topology round(16, one_nic(4), {}, torus, 1);
  round.add_storage(core::BytesPerSecond{1e12});
  CHECK(parts(round, 5) ==
        std::map<std::string, double>{{"node 1 NIC 1 out", 1}, {"storage in", 1}});

  // Eight GPUs on four NICs share them; four GPUs on eight have two each.
  Fabric many = three_tiers();
  many.nics_per_node = 8;
  Topology wide(16, one_nic(4), {}, many, 1);
  wide.add_storage(core::BytesPerSecond{1e12});
  CHECK(parts(wide, 1)["node 0 NIC 3 out"] == 0.5);
}

TEST_CASE("alike ranks that write alike are played once, and what arrives is every rank's") {
  int folded = 0, late = 0, slower = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const core::Random random(seed, 79);
    program::Program p = engine_test::random_program(seed);
    constexpr int kData[] = {4, 8, 12, 16};
    p.mesh.data = kData[random.below(1, 4)];
    const int ranks = p.mesh.ranks(), per_node = random.below(2, 2) == 0 ? 2 : 4;
    if (ranks <= per_node) continue;
    cost::Machine machine = one_nic(per_node);
    machine.internode = core::BytesPerSecond{1e11 * (1 + static_cast<double>(random.below(0, 20)))};
    machine.internode_latency = core::Seconds{1e-12 * static_cast<double>(random.below(7, 900))};
    const bool has_fabric = random.below(3, 2) == 0;
    Topology topology = has_fabric ? Topology(ranks, machine, {}, three_tiers(), seed)
                                   : Topology(ranks, machine, {});
    topology.add_storage(core::BytesPerSecond{1e11 * static_cast<double>(random.below(4, 40) + 1)});
    Writes writes;
    writes.to_nodes = random.below(5, 4) == 0;
    const double bytes = 100.0 * static_cast<double>(1 + random.below(6, 2000));
    for (int rank = 0; rank < ranks; ++rank)
      writes.bytes.push_back(bytes * (1 + p.class_of(rank)));
    const engine::Symmetry symmetry(p, engine::groups_of(p, per_node), topology, {}, &writes);
    const Outcome one = flows_over(p, machine, topology, &symmetry, &writes);
    const Outcome each = flows_over(p, machine, topology, nullptr, &writes);
    const engine::Fold& fold = symmetry.fold();
    for (std::size_t rank = 0; rank < fold.of.size(); ++rank)
      for (int step = 0; step < 2; ++step)
        REQUIRE(each.account(rank, step) ==
                one.account(static_cast<std::size_t>(fold.of[rank]), step));
    REQUIRE(one.written_at == each.written_at);
    double all = 0;
    for (const double b : writes.bytes) all += b;
    for (std::size_t step = 0; step < 2; ++step) {
      REQUIRE(one.written[step].time == each.written[step].time);
      REQUIRE(std::abs(one.written[step].bytes - each.written[step].bytes) <= 1e-9 * all);
      REQUIRE(each.written[step].bytes <= all * (1 + 1e-12));
    }
    for (std::uint32_t l = 0; l < topology.links().size(); ++l) {
      const engine::TopologyLink& link = topology.links()[l];
      REQUIRE(each.carried[l] <=
              link.rate * static_cast<double>(each.written[1].time) * (1 + 1e-6) + 1);
      if (link.kind == LinkKind::storage && !writes.to_nodes && each.written_at >= 0)
        REQUIRE(each.carried[l] == all);
    }
    const Outcome without = flows_over(p, machine, topology, nullptr);
    REQUIRE(each.wire_sent == without.wire_sent);
    slower += each.makespan() > without.makespan();
    late += each.written_at < 0;
    folded += fold.count() < ranks;
  }
  CHECK(folded > 15);
  CHECK(late > 5);
  CHECK(late < 55);
  CHECK(slower > 20);
}
