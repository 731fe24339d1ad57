// Fabrics: ways through switches, loads of links, and folding over them.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/random.hpp"
#include "sim/engine/symmetry.hpp"
#include "tests/unit/engine/folded_flows.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/random_programs.hpp"
#include "tests/unit/engine/small_space.hpp"

using engine::Outcome;
using engine::Topology;
using engine_test::flows_over;
using engine_test::Lowered;
using hw_profiles::Fabric;
using hw_profiles::Routing;
using hw_profiles::Shape;

namespace {

Fabric clos(int nodes_per_leaf, int rails, int spines, Routing routing) {
  Fabric f;
  f.nics_per_node = 4;
  f.nic_bandwidth = core::BytesPerSecond{1e12};
  f.switch_latency = core::Seconds{100e-12};
  f.link_bandwidth = core::BytesPerSecond{1e12};
  f.nodes_per_leaf = nodes_per_leaf;
  f.rails = rails;
  f.spines = spines;
  f.routing = routing;
  return f;
}

Fabric torus(std::vector<int> dimensions) {
  Fabric f = clos(1, 1, 1, Routing::adaptive);
  f.shape = Shape::torus;
  f.dimensions = std::move(dimensions);
  return f;
}

cost::Machine fabric_machine(int per_node) {
  cost::Machine m = engine_test::unit_machine();
  m.gpus_per_node = per_node;
  m.link = core::BytesPerSecond{4e12};
  m.link_latency = core::Seconds{50e-12};
  m.internode_latency = core::Seconds{400e-12};
  return m;
}

// Three pairs of nodes on a ring of three switches and a hub that makes other paths as short.
Fabric graph() {
  Fabric f = clos(1, 1, 1, Routing::adaptive);
  f.shape = Shape::graph;
  f.switches = {"a", "b", "c", "hub"};
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 2}, {2, 0}, {0, 3}, {1, 3}, {2, 3}})
    f.links.push_back({from, to, core::BytesPerSecond{to == 3 ? 0.5e12 : 1e12}});
  for (int node = 0; node < 32; ++node) f.attached.push_back(node % 3);
  return f;
}

// The switch that a NIC is attached to, by its name.
std::string switch_of(const Fabric& f, int node, int nic) {
  if (f.shape == Shape::torus) return fmt::format("node {}", node);
  if (f.shape == Shape::graph) return f.switches.at(f.attached.at(node));
  return fmt::format("leaf {}", node / f.nodes_per_leaf * f.rails + nic % f.rails);
}

// What enters a switch leaves it, and what leaves one node's NICs enters those of another.
void check_conservation(const Fabric& f, const Topology& topology, const Outcome& o) {
  std::map<std::string, double> in, out;
  for (std::uint32_t l = 0; l < topology.links().size(); ++l) {
    const engine::TopologyLink& link = topology.links()[l];
    const int node = static_cast<int>(link.at) / f.nics_per_node;
    const int nic = static_cast<int>(link.at) % f.nics_per_node;
    if (link.kind == engine::LinkKind::nic_out) {
      in[switch_of(f, node, nic)] += o.carried[l];
      out["nodes"] += o.carried[l];
    } else if (link.kind == engine::LinkKind::nic_in) {
      out[switch_of(f, node, nic)] += o.carried[l];
      in["nodes"] += o.carried[l];
    } else if (link.kind == engine::LinkKind::between_switches) {
      std::string name = topology.name(l);
      name.resize(std::min(name.size(), name.find(", link")));
      const std::size_t to = name.find(" to ");
      out[name.substr(0, to)] += o.carried[l];
      in[name.substr(to + 4)] += o.carried[l];
    }
  }
  for (const auto& [at, bytes] : in) {
    INFO(at);
    CHECK(std::abs(bytes - out[at]) <= 1e-6 * bytes);
  }
}

// No link has carried more than its bandwidth allows in the time of all steps. Parts of a message
// are rounded up to 2^-32 of it.
void check_capacity(const Topology& topology, const Outcome& o) {
  std::int64_t end = 0;
  for (std::size_t a = 0; a < o.actors(); ++a)
    end = std::max(end, o.account(a, o.steps - 1).finish);
  for (std::uint32_t l = 0; l < topology.links().size(); ++l) {
    INFO(topology.name(l));
    CHECK(o.carried[l] <= topology.links()[l].rate * static_cast<double>(end) * (1 + 1e-6));
  }
}

}  // namespace

TEST_CASE("over one leaf a message crosses ports and NICs; over two also a spine, later") {
  const Topology t(16, fabric_machine(4), {}, clos(2, 1, 2, Routing::adaptive), 1);
  engine::Route route;
  t.route(0, 4, {}, false, route);     // nodes 0 and 1 share leaf 0
  CHECK(route.latency == 400);
  REQUIRE(route.hops.size() == 4);
  CHECK(t.name(route.hops[1].link) == "node 0 NIC 0 out");
  t.route(1, 9, {}, false, route);     // node 2 is on leaf 1; spread over two spines
  CHECK(route.latency == 400 + 2 * 100);
  REQUIRE(route.hops.size() == 8);
  std::map<std::string, double> part;
  for (const auto& hop : route.hops) part[t.name(hop.link)] = hop.weight;
  CHECK(part["node 0 NIC 1 out"] == 1);
  CHECK(part["leaf 0 to spine 0"] == 0.5);
  CHECK(part["spine 1 to leaf 1"] == 0.5);
  CHECK(t.tier(route.hops.back().link) == "GPU in");
}

TEST_CASE("a ring spreads over the NICs of its members in the node") {
  const Topology t(16, fabric_machine(4), {}, clos(4, 4, 2, Routing::adaptive), 1);
  engine::Route route;
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7}, half{0, 2, 4, 6};
  t.route(3, 4, all, false, route);
  CHECK(std::ranges::count(route.hops, 0.25, &engine::Network::Hop::weight) == 8);
  t.route(2, 4, half, false, route);
  CHECK(std::ranges::count(route.hops, 0.5, &engine::Network::Hop::weight) == 4);
}

TEST_CASE("a hash takes one of the equal ways, by the seed alone") {
  const Fabric f = clos(1, 1, 8, Routing::ecmp);
  engine::Route a, b;
  int same = 0;
  std::map<std::string, int> spines;
  for (int to = 4; to < 256; to += 4) {
    Topology(256, fabric_machine(4), {}, f, 1).route(0, to, {}, false, a);
    Topology(256, fabric_machine(4), {}, f, 2).route(0, to, {}, false, b);
    const Topology t(256, fabric_machine(4), {}, f, 1);
    REQUIRE(a.hops.size() == 6);
    for (const auto& hop : a.hops) CHECK(hop.weight == 1);
    ++spines[t.name(std::ranges::max(a.hops, {}, &engine::Network::Hop::link).link).substr(0, 7)];
    same += std::ranges::equal(a.hops, b.hops, {}, &engine::Network::Hop::link,
                               &engine::Network::Hop::link);
  }
  CHECK(same > 0);
  CHECK(same < 24);                    // of 63, an eighth by chance
  CHECK(spines.size() >= 6);
}

TEST_CASE("around a torus a message takes the fewest links, both ways where they are equal") {
  const Topology t(16 * 4, fabric_machine(4), {}, torus({4, 4}), 1);
  engine::Route route;
  t.route(0, 4 * 3, {}, false, route);  // node 3 is node 0's neighbour, round
  CHECK(route.latency == 500);
  t.route(0, 4 * 2, {}, false, route);  // two links away on both sides
  CHECK(route.latency == 600);
  CHECK(std::ranges::count(route.hops, 0.5, &engine::Network::Hop::weight) == 4);
}

TEST_CASE("alike ranks played once give every rank's step, on random fabrics") {
  int folded = 0, most = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    INFO("seed " << seed);
    const core::Random random(seed, 78);
    program::Program p = engine_test::random_program(seed);
    constexpr int kData[] = {4, 8, 12, 16};
    p.mesh.data = kData[random.below(1, 4)];
    most = std::max(most, p.mesh.ranks());
    const cost::Machine machine = fabric_machine(random.below(2, 2) == 0 ? 2 : 4);
    Fabric f = clos(1 + static_cast<int>(random.below(3, 4)), random.below(4, 2) == 0 ? 1 : 2,
                    1 + static_cast<int>(random.below(5, 4)), Routing::adaptive);
    const std::uint64_t shape = random.below(6, 5);
    if (shape == 1) f = torus({4, 8});
    if (shape == 2) {
      f.leaves = 2;
      f.cores = 2;
    }
    if (shape == 3) {
      f.shape = Shape::dragonfly_plus;
      f.rails = 1;
      f.leaves = 2;
      f.global_links = 3;
      f.global_bandwidth = core::BytesPerSecond{0.5e12};
    }
    if (shape == 4) f = graph();
    const Topology topology(p.mesh.ranks(), machine, {}, f, seed);
    const engine::Symmetry symmetry(p, engine::groups_of(p, machine.gpus_per_node), topology, {});
    const Outcome one = flows_over(p, machine, topology, &symmetry);
    const Outcome each = flows_over(p, machine, topology, nullptr);
    const engine::Fold& fold = symmetry.fold();
    for (std::size_t rank = 0; rank < fold.of.size(); ++rank)
      for (int step = 0; step < 2; ++step)
        REQUIRE(each.account(rank, step) ==
                one.account(static_cast<std::size_t>(fold.of[rank]), step));
    for (std::size_t l = 0; l < topology.links().size(); ++l)
      REQUIRE(std::abs(one.carried[l] - each.carried[l]) <= 1e-9 * each.carried[l]);
    check_conservation(f, topology, each);
    check_capacity(topology, each);
    f.routing = Routing::ecmp;
    const Topology hashed(p.mesh.ranks(), machine, {}, f, seed);
    const Outcome collided = flows_over(p, machine, hashed, nullptr);
    check_conservation(f, hashed, collided);
    check_capacity(hashed, collided);
    folded += fold.count() < p.mesh.ranks();
  }
  CHECK(folded > 20);
  CHECK(most == 64);
}

TEST_CASE("links have names of their own, and layers are counted from the GPUs upward") {
  Fabric f = clos(2, 1, 2, Routing::ecmp);
  f.leaf_links = 2;
  const Topology t(32, fabric_machine(4), {}, f, 1);
  std::set<std::string> names;
  for (std::uint32_t l = 0; l < t.links().size(); ++l) names.insert(t.name(l));
  CHECK(names.size() == t.links().size());
  CHECK(names.contains("leaf 3 to spine 1, link 2"));
  const std::vector<std::pair<std::string, int>> layers{
      {"GPU", 32}, {"NIC", 32}, {"leaf", 4}, {"spine", 2}};
  CHECK(t.layers() == layers);
}

TEST_CASE("a fabric is as large as its size says") {
  for (const int nodes : {1, 3, 8, 32}) {
    std::vector<Fabric> fabrics{clos(2, 1, 3, Routing::ecmp), clos(2, 4, 3, Routing::ecmp),
                                torus({2, 4, 4}), graph()};
    Fabric& pods = fabrics.emplace_back(clos(2, 2, 3, Routing::ecmp));
    pods.leaves = 2;
    pods.cores = 5;
    pods.leaf_links = pods.core_links = 2;
    Fabric& dragonfly = fabrics.emplace_back(pods);
    dragonfly.shape = Shape::dragonfly_plus;
    dragonfly.rails = 1;
    dragonfly.global_links = 4;
    dragonfly.global_bandwidth = core::BytesPerSecond{1e12};
    for (const Fabric& f : fabrics) {
      INFO(name(f.shape) << " of " << nodes << " nodes");
      const engine::Switches built(f, nodes, 1);
      const hw_profiles::FabricSize size = size_of(f, nodes);
      CHECK(static_cast<std::int64_t>(built.switches()) == size.switches);
      CHECK(static_cast<std::int64_t>(built.links().size()) == 2 * size.links);
    }
  }
}

TEST_CASE("where hashes collide, alike ranks played once are within a hundredth of all") {
  double worst = 0;
  int visited = 0, slower = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    visited += engine_test::each_candidate(
        {"gpt2-124m", "h100-sxm-80g", 32, 128, 32, {"sharding=zero1", "micro_batch=1",
         "checkpoint=none", "pipeline=1", "context=1", "sequence_parallel=false"}},
        [&](const Lowered& c) {
          INFO("seed " << seed << ' ' << to_text(c.strategy));
          Fabric f = clos(1, 1, 8, Routing::ecmp);
          f.nics_per_node = 8;
          f.nic_bandwidth = f.link_bandwidth = core::BytesPerSecond{5e9};
          cost::Machine machine = c.question.machine;
          machine.internode = core::BytesPerSecond{40e9};
          const engine::Groups groups = engine::groups_of(c.program, 8);
          const auto period = [&](bool fold) {
            const Topology topology(32, machine, {}, f, seed);
            const engine::Symmetry symmetry(c.program, groups, topology, {});
            return static_cast<double>(
                engine::critical_terms(
                    flows_over(c.program, machine, topology, fold ? &symmetry : nullptr))
                    .period);
          };
          const double folded = period(true), each = period(false);
          f.routing = Routing::adaptive;
          slower += each > 1.1 * period(true);
          worst = std::max(worst, std::abs(folded / each - 1));
          CHECK(std::abs(folded / each - 1) <= 0.01);
        });
  INFO("worst " << worst);
  CHECK(visited > 6);
  CHECK(slower > visited / 2);         // collisions matter
}
