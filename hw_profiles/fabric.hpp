#pragma once
// Fabric: the network between nodes, as a file fabric/1 describes it: NICs, switches, the links
// between switches, and how switches choose among equally short paths. The shipped fabrics are in
// fabrics/. Every number is written with its source. A source that begins with "assumed" says that
// nobody published the number. Value types; reading is thread-safe.
//
// Shapes:
//   clos            Leaf switches, each linked to every spine of its pod. Where there are several
//                   pods, spine s of every pod is linked to the same cores. rails > 1: NIC i of
//                   each node goes to a leaf of rail i mod rails (rail-optimised); rails = 1: all
//                   NICs of a node go to one leaf.
//   dragonfly_plus  Groups of leaves and spines. Every two groups are linked.
//   torus           A switch per node, linked to its neighbours in each dimension, in a ring.
//   graph           Switches and links by name, and how many nodes each switch has.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"
#include "hw_profiles/profile.hpp"

namespace hw_profiles {

enum class Shape { clos, dragonfly_plus, torus, graph };
inline constexpr std::array kShapes{Shape::clos, Shape::dragonfly_plus, Shape::torus,
                                    Shape::graph};
std::string_view name(Shape shape);

// How a switch chooses among the links that are on a shortest path to the destination.
//   ecmp      by a hash of sender and receiver: two messages may collide on one link
//   adaptive  ideal: every message spreads over all of these links, in proportion to bandwidth
enum class Routing { ecmp, adaptive };
inline constexpr std::array kRoutings{Routing::ecmp, Routing::adaptive};
std::string_view name(Routing routing);

struct FabricLink {
  int a = 0, b = 0;                    // switches; the link goes both ways
  core::BytesPerSecond bandwidth;      // each way
};

struct Fabric {
  std::string id, about;
  int gpus_per_node = 0;               // that these nodes have; 0: any number
  int nics_per_node = 1;
  core::BytesPerSecond nic_bandwidth;  // of each NIC, per direction
  double nic_efficiency = 1;           // the fraction of a link's bandwidth that messages reach
  core::Seconds switch_latency{};      // that each link between switches adds; 0: not stated
  Routing routing = Routing::adaptive;
  Shape shape = Shape::clos;
  core::BytesPerSecond link_bandwidth;  // of one link between switches; not of a graph
  // clos and dragonfly_plus
  int nodes_per_leaf = 1, rails = 1;   // with rails, a node has a NIC on a leaf of each
  int leaves = 0;                      // per pod or group, of each rail; 0: one pod takes all
  int spines = 1;                      // per pod or group
  int leaf_links = 1;                  // between a leaf and each spine of its pod
  int cores = 0, core_links = 1;       // cores of each spine; links between it and each of them
  int global_links = 1;                // dragonfly_plus: between two groups
  core::BytesPerSecond global_bandwidth;
  std::vector<int> dimensions;         // torus
  // graph
  std::vector<std::string> switches;
  std::vector<FabricLink> links;
  std::vector<int> attached;           // by node: its switch
  std::vector<Sourced> sources;
};

// How many nodes a fabric has room for: kNoLimit where the shape grows with them.
inline constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;
std::int64_t room(const Fabric& fabric);

// What a fabric consists of when it joins so many nodes. REQUIRES: 1 <= nodes <= room(fabric).
struct FabricSize {
  std::int64_t switches = 0;
  std::int64_t leaves = 0;             // switches that nodes are attached to
  std::int64_t links = 0;              // between switches; links side by side count one by one
};
FabricSize size_of(const Fabric& fabric, std::int64_t nodes);

// The numbers for which nobody published a value, and the latency of switches where the file states
// none. Answers that rest on the fabric list them.
std::vector<Sourced> assumptions(const Fabric& fabric);

std::vector<std::string> fabric_names();
// A shipped name, or a path (it has a slash or ends in .json).
core::Result<Fabric> find_fabric(const std::string& wanted);
core::Result<Fabric> fabric_from_json_text(std::string_view text, std::string_view where);

}  // namespace hw_profiles
