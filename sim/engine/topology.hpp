#pragma once
// Topology: the links of a machine, and the way that a message takes from one rank to another.
//
// Inside a node: each GPU's ports out and in (machine.link), bridged pairs (machine.pair). Between
// nodes, either one network out and in per node (machine.internode), or the NICs and switches of a
// fabric (switches.hpp). A message inside a node crosses two ports, or the bridge; between nodes
// also both networks, or a NIC out, the links between switches, and a NIC in. It begins one latency
// after what it follows. What a profile's single bandwidth per GPU leaves out (NVSwitches, PCIe
// trees, host memory) is not shared here either.
//
// Over a fabric a ring spreads evenly over the NICs of all its members in the node, as NCCL's
// channels do. Any other message takes the NIC of its receiver's place in the node: the sender
// hands it over inside its own node first (NCCL's PXN), which is not counted.
//
// Immutable after building; thread-safe to read.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/machine.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/switches.hpp"

namespace engine {

// A rank whose ports keep a share of their bandwidth; 0: its links inside the node are broken, and
// its messages take the network even to neighbours.
struct WeakLink {
  int rank = 0;
  double share = 1;
};

enum class LinkKind : std::uint8_t {
  port_out, port_in, pair, node_out, node_in, nic_out, nic_in, between_switches,
  storage
};
constexpr bool is_network(LinkKind kind) { return kind >= LinkKind::node_out; }

struct TopologyLink {
  LinkKind kind{};
  std::uint32_t at = 0;                // of its kind: rank, pair, node, NIC or link of the switches
  double rate = 0;                     // bytes per picosecond
};

struct Route {
  std::vector<Network::Hop> hops;      // weight: the part of the message that crosses the link
  std::int64_t latency = 0;            // picoseconds
};

// A checkpoint that is written while steps run: so many bytes from the memory of each rank's host,
// over the rank's NICs, to storage or to the host of the rank in the same place of the next node.
// They do not count as sent by the ranks, and no rank waits for them.
struct Writes {
  std::vector<double> bytes;           // by rank; 0: none
  bool to_nodes = false;
};
// Bytes that had arrived at a time, of all ranks.
struct Written {
  std::int64_t time = 0;
  double bytes = 0;
};

class Topology {
 public:
  Topology(int ranks, const cost::Machine& machine, std::span<const WeakLink> weak);
  // REQUIRES: the fabric has room for the nodes. seed: of the hashes.
  Topology(int ranks, const cost::Machine& machine, std::span<const WeakLink> weak,
           const hw_profiles::Fabric& fabric, std::uint64_t seed);

  int ranks() const { return static_cast<int>(broken_.size()); }
  const std::vector<TopologyLink>& links() const { return links_; }
  // "GPU 3 out", "node 0 NIC 2 in", "leaf 1 to spine 4"; and what is alike in its place: "GPU out".
  std::string name(std::uint32_t link) const;
  std::string tier(std::uint32_t link) const;
  // What the links join, from the GPUs upward: GPU 64, NIC 64, leaf 8, spine 4.
  std::vector<std::pair<std::string, int>> layers() const;
  // Whether routes depend on hashes, so that links alike in their place carry different loads.
  bool hashed() const { return hashed_; }
  // Whether a message between these two can arrive: broken links need a network to go around.
  bool reaches(int from, int to) const;
  // ring: the members of the ring that the message belongs to, empty for any other message.
  // spread: as if it went over all equal ways evenly, whatever the routing. REQUIRES: reaches().
  void route(int from, int to, std::span<const int> ring, bool spread, Route& out) const;

  // Storage for checkpoints, above the highest switches, with one link into it that all share.
  // Once, before anything is routed.
  void add_storage(core::BytesPerSecond rate);
  // What a rank writes, evenly over all equal ways, since a writer has many connections. REQUIRES:
  // storage, or a second node and a network.
  void route_write(int rank, bool to_node, Route& out) const;

 private:
  void build(int ranks, const cost::Machine& m, std::span<const WeakLink> weak, bool network);
  std::uint32_t add(LinkKind kind, std::size_t at, double rate);
  void route_network(int from, int to, std::span<const int> ring, bool spread, Route& out) const;
  void add_nics(int place, std::vector<int>& nics) const;
  void add_parts(std::vector<Switches::Part>& parts, Route& out) const;

  int per_node_, nics_ = 0;
  std::int64_t latency_, pair_latency_, network_latency_, switch_latency_ = 0;
  bool hashed_ = false;
  std::vector<TopologyLink> links_;
  std::vector<std::uint32_t> port_out_, port_in_, pair_, node_out_, node_in_, nic_out_, nic_in_;
  std::uint32_t first_between_ = 0;    // link: the first between switches
  std::optional<Switches> switches_;
  std::optional<std::uint32_t> storage_;  // link
  std::vector<bool> broken_;
};

// What the cost model takes a message to need on links that the others of its kind share with it
// evenly: a latency, and then its bytes at the bandwidth that is left. share: of a node's network.
struct Expected {
  std::int64_t latency = 0, wire = 0;  // picoseconds
  std::int64_t time() const { return latency + wire; }
};
Expected expected(const cost::Machine& machine, int from, int to, double bytes, double share);

}  // namespace engine
