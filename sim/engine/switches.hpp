#pragma once
// Switches: the network between nodes as a graph of switches, built from a fabric's description
// for so many nodes, and the ways through it. All ways with the fewest links are equal.
//
//   ecmp      each switch takes one link of those that lead on, by a hash of the seed, of who sends
//             to whom over which NIC, and of the switch
//   adaptive  each switch spreads a message over all of them, by their bandwidth
//
// Immutable after building; thread-safe to read. Building searches once from every switch that has
// nodes: O(those x links).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hw_profiles/fabric.hpp"

namespace engine {

class Switches {
 public:
  // REQUIRES: nodes <= room(fabric).
  Switches(const hw_profiles::Fabric& fabric, int nodes, std::uint64_t seed);

  // One direction of a link between two switches, or of several alike that are taken together.
  struct Link {
    int from = 0, to = 0;
    double rate = 0;                   // bytes per picosecond
    int number = 0;                    // among those side by side, from 1; 0: the only one
  };
  const std::vector<Link>& links() const { return links_; }
  std::size_t switches() const { return names_.size(); }
  // "leaf 0 to spine 3"; of links side by side "leaf 0 to spine 3, link 2".
  std::string name(std::size_t link) const;
  // "leaf to spine": what is alike in its place.
  std::string tier(std::size_t link) const;
  // How many switches of each kind there are, from those of nodes upward: leaf 32, spine 16.
  std::vector<std::pair<std::string, int>> layers() const;

  // Part of a message on a link.
  struct Part {
    std::uint32_t link = 0;
    double part = 0;
  };
  // Adds the parts of a message, `whole` of it, that goes from a node's NIC to the same NIC of
  // another node; returns how many links come after one another. key: who sends to whom. spread:
  // over all ways, whatever the routing.
  int route(int from_node, int to_node, int nic, std::uint64_t key, double whole, bool spread,
            std::vector<Part>& out) const;
  // Likewise of what goes from a node's NIC up to the highest switches, spread over all links that
  // lead there; 0 where no switch is above another.
  int route_up(int node, int nic, double whole, std::vector<Part>& out) const;

 private:
  enum class Tier : std::uint8_t { leaf, spine, core, node, named };

  int add(Tier tier, std::string name);
  void join(int a, int b, core::BytesPerSecond bandwidth, int count);
  void build_clos(const hw_profiles::Fabric& f, int nodes);
  void build_dragonfly(const hw_profiles::Fabric& f, int nodes);
  void build_torus(const hw_profiles::Fabric& f);
  void build_graph(const hw_profiles::Fabric& f);
  void number_links();
  void search();
  int attached(int node, int nic) const;
  std::vector<std::uint32_t> onward(int at, const std::vector<std::uint16_t>& away) const;
  std::vector<std::uint32_t> upward(int at) const;
  void spread_over(const std::vector<std::uint32_t>& links, double part,
                   std::map<int, double>& next, std::vector<Part>& out) const;

  hw_profiles::Routing routing_;
  std::uint64_t seed_;
  double efficiency_;
  std::vector<std::string> names_;
  std::vector<Tier> tiers_;
  std::vector<Link> links_;
  std::vector<std::vector<std::uint32_t>> out_;  // by switch: links
  int rails_ = 1;
  std::vector<int> attached_;          // by node and rail: its switch
  std::vector<int> goal_of_;           // by switch: index into away_, -1: it has no nodes
  std::vector<std::vector<std::uint16_t>> away_;  // by goal and switch: links to go
};

}  // namespace engine
