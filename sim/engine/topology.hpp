#pragma once
// Topology: the links of a machine, and the way that a message takes from one rank to another.
//
// Links: each GPU's ports out and in (machine.link), bridged pairs (machine.pair), each node's
// network out and in (machine.internode). A message inside a node crosses two ports, or the bridge;
// between nodes also both networks. It begins one latency after what it follows. What a profile's
// single bandwidth per GPU leaves out (switches, PCIe trees, host memory) is not shared here
// either.
//
// Immutable after building; thread-safe to read.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/machine.hpp"

namespace engine {

// A rank whose ports keep a share of their bandwidth; 0: its links inside the node are broken, and
// its messages take the network even to neighbours.
struct WeakLink {
  int rank = 0;
  double share = 1;
};

enum class LinkKind : std::uint8_t { port_out, port_in, pair, node_out, node_in };
constexpr bool is_network(LinkKind kind) { return kind >= LinkKind::node_out; }

struct TopologyLink {
  LinkKind kind{};
  std::uint32_t at = 0;                // of its kind: rank, pair or node
  double rate = 0;                     // bytes per picosecond
};

struct Route {
  std::vector<std::uint32_t> links;    // no link twice
  std::int64_t latency = 0;            // picoseconds
};

class Topology {
 public:
  Topology(int ranks, const cost::Machine& machine, std::span<const WeakLink> weak);

  int ranks() const { return static_cast<int>(broken_.size()); }
  const std::vector<TopologyLink>& links() const { return links_; }
  // Whether a message between these two can arrive: broken links need a network to go around.
  bool reaches(int from, int to) const;
  // REQUIRES: reaches(from, to).
  void route(int from, int to, Route& out) const;

 private:
  std::uint32_t add(LinkKind kind, std::size_t at, double rate);

  int per_node_;
  std::int64_t latency_, pair_latency_, network_latency_;
  std::vector<TopologyLink> links_;
  std::vector<std::uint32_t> port_out_, port_in_, pair_, node_out_, node_in_;
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
