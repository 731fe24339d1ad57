#include "sim/engine/switches.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/check.hpp"
#include "sim/engine/fold_parts.hpp"

namespace engine {
namespace {

using hw_profiles::Fabric;
using hw_profiles::Routing;

constexpr std::uint16_t kFar = 0xffff;

// Few binary digits: sums of such parts are exact, in whatever order.
double rounded(double part) { return std::round(part * 0x1p32) * 0x1p-32; }

// By Switches::Tier.
constexpr const char* kTierNames[] = {"leaf", "spine", "core", "node", "switch"};

int divided_up(int a, int b) { return (a + b - 1) / b; }

}  // namespace

Switches::Switches(const Fabric& f, int nodes, std::uint64_t seed)
    : routing_(f.routing), seed_(seed), efficiency_(f.nic_efficiency) {
  PLANNER_CHECK(nodes >= 1 && nodes <= room(f));
  switch (f.shape) {
    case hw_profiles::Shape::clos: build_clos(f, nodes); break;
    case hw_profiles::Shape::dragonfly_plus: build_dragonfly(f, nodes); break;
    case hw_profiles::Shape::torus: build_torus(f); break;
    case hw_profiles::Shape::graph: build_graph(f); break;
  }
  number_links();
  search();
}

int Switches::add(Tier tier, std::string name) {
  tiers_.push_back(tier);
  names_.push_back(std::move(name));
  out_.emplace_back();
  return static_cast<int>(names_.size() - 1);
}

// Both ways. Where messages spread, `count` alike links are one of their bandwidth together.
void Switches::join(int a, int b, core::BytesPerSecond bandwidth, int count) {
  const bool together = routing_ == Routing::adaptive;
  const double rate = bandwidth.value() * 1e-12 * efficiency_ * (together ? count : 1);
  for (int i = 0; i < (together ? 1 : count); ++i)
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      out_[static_cast<std::size_t>(from)].push_back(static_cast<std::uint32_t>(links_.size()));
      links_.push_back({from, to, rate});
    }
}

void Switches::build_clos(const Fabric& f, int nodes) {
  rails_ = f.rails;
  const int groups = divided_up(nodes, f.nodes_per_leaf);  // of nodes that share leaves
  const int in_pod = f.leaves > 0 ? f.leaves : groups;
  const int pods = divided_up(groups, in_pod);
  std::vector<int> leaves;                                 // by group and rail
  for (int g = 0; g < groups; ++g)
    for (int r = 0; r < rails_; ++r)
      leaves.push_back(add(Tier::leaf, fmt::format("leaf {}", leaves.size())));
  for (int node = 0; node < nodes; ++node)
    for (int r = 0; r < rails_; ++r)
      attached_.push_back(leaves[static_cast<std::size_t>(node / f.nodes_per_leaf * rails_ + r)]);
  if (groups * rails_ == 1) return;
  std::vector<int> cores;
  for (int c = 0; pods > 1 && c < f.spines * f.cores; ++c)
    cores.push_back(add(Tier::core, fmt::format("core {}", c)));
  for (int pod = 0; pod < pods; ++pod)
    for (int s = 0; s < f.spines; ++s) {
      const int spine = add(Tier::spine, fmt::format("spine {}", pod * f.spines + s));
      for (int g = pod * in_pod; g < std::min(groups, (pod + 1) * in_pod); ++g)
        for (int r = 0; r < rails_; ++r)
          join(leaves[static_cast<std::size_t>(g * rails_ + r)], spine, f.link_bandwidth,
               f.leaf_links);
      for (int c = 0; pods > 1 && c < f.cores; ++c)
        join(spine, cores[static_cast<std::size_t>(s * f.cores + c)], f.link_bandwidth,
             f.core_links);
    }
}

// The links between two groups are dealt to the spines of both in turn.
void Switches::build_dragonfly(const Fabric& f, int nodes) {
  const int leaves = divided_up(nodes, f.nodes_per_leaf), groups = divided_up(leaves, f.leaves);
  std::vector<std::vector<int>> spines(static_cast<std::size_t>(groups));
  std::vector<int> all;
  for (int leaf = 0; leaf < leaves; ++leaf)
    all.push_back(add(Tier::leaf, fmt::format("leaf {}", leaf)));
  for (int node = 0; node < nodes; ++node)
    attached_.push_back(all[static_cast<std::size_t>(node / f.nodes_per_leaf)]);
  for (int g = 0; g < groups; ++g)
    for (int s = 0; s < f.spines; ++s) {
      const int spine = add(Tier::spine, fmt::format("spine {}", g * f.spines + s));
      spines[static_cast<std::size_t>(g)].push_back(spine);
      for (int leaf = g * f.leaves; leaf < std::min(leaves, (g + 1) * f.leaves); ++leaf)
        join(all[static_cast<std::size_t>(leaf)], spine, f.link_bandwidth, f.leaf_links);
    }
  for (int a = 0; a < groups; ++a)
    for (int b = a + 1; b < groups; ++b)
      for (int i = 0; i < f.global_links; ++i) {
        const auto at = [&](int g, int by) {
          return spines[static_cast<std::size_t>(g)][static_cast<std::size_t>(by % f.spines)];
        };
        join(at(a, b * f.global_links + i), at(b, a * f.global_links + i), f.global_bandwidth, 1);
      }
}

void Switches::build_torus(const Fabric& f) {
  const auto nodes = static_cast<int>(room(f));
  for (int node = 0; node < nodes; ++node)
    attached_.push_back(add(Tier::node, fmt::format("node {}", node)));
  int stride = 1;
  for (const int length : f.dimensions) {
    for (int node = 0; node < nodes; ++node) {
      const int at = node / stride % length;
      const int next = node + ((at + 1) % length - at) * stride;
      const bool twice = length == 2 && at == 1;  // two switches are neighbours once
      if (next != node && !twice) join(node, next, f.link_bandwidth, 1);
    }
    stride *= length;
  }
}

void Switches::build_graph(const Fabric& f) {
  for (const std::string& name : f.switches) add(Tier::named, name);
  for (const hw_profiles::FabricLink& l : f.links) join(l.a, l.b, l.bandwidth, 1);
  attached_ = f.attached;
}

void Switches::number_links() {
  std::map<std::pair<int, int>, std::vector<std::size_t>> beside;
  for (std::size_t l = 0; l < links_.size(); ++l)
    beside[{links_[l].from, links_[l].to}].push_back(l);
  for (const auto& [ends, links] : beside)
    for (std::size_t i = 0; links.size() > 1 && i < links.size(); ++i)
      links_[links[i]].number = static_cast<int>(i) + 1;
}

int Switches::attached(int node, int nic) const {
  return attached_[static_cast<std::size_t>(node * rails_ + nic % rails_)];
}

// Breadth first from every switch with nodes; links go both ways.
void Switches::search() {
  goal_of_.assign(names_.size(), -1);
  std::vector<int> open;
  for (const int goal : attached_) {
    if (goal_of_[static_cast<std::size_t>(goal)] >= 0) continue;
    goal_of_[static_cast<std::size_t>(goal)] = static_cast<int>(away_.size());
    std::vector<std::uint16_t>& away = away_.emplace_back(names_.size(), kFar);
    away[static_cast<std::size_t>(goal)] = 0;
    open.assign(1, goal);
    for (std::size_t i = 0; i < open.size(); ++i)
      for (const std::uint32_t l : out_[static_cast<std::size_t>(open[i])]) {
        const auto to = static_cast<std::size_t>(links_[l].to);
        if (away[to] != kFar) continue;
        away[to] = static_cast<std::uint16_t>(away[static_cast<std::size_t>(open[i])] + 1);
        open.push_back(links_[l].to);
      }
  }
}

// Links that lead nearer to the goal.
std::vector<std::uint32_t> Switches::onward(int at, const std::vector<std::uint16_t>& away) const {
  std::vector<std::uint32_t> links;
  for (const std::uint32_t l : out_[static_cast<std::size_t>(at)])
    if (away[static_cast<std::size_t>(links_[l].to)] < away[static_cast<std::size_t>(at)])
      links.push_back(l);
  return links;
}

int Switches::route(int from_node, int to_node, int nic, std::uint64_t key, double whole,
                    bool spread, std::vector<Part>& out) const {
  const int from = attached(from_node, nic), to = attached(to_node, nic);
  const int goal = goal_of_[static_cast<std::size_t>(to)];
  const std::vector<std::uint16_t>& away = away_[static_cast<std::size_t>(goal)];
  const int length = away[static_cast<std::size_t>(from)];
  PLANNER_CHECK(length != kFar, "a fabric in two parts");
  std::map<int, double> here{{from, whole}};
  for (int left = length; left > 0; --left) {
    std::map<int, double> next;
    for (const auto& [at, part] : here) {
      const std::vector<std::uint32_t> links = onward(at, away);
      if (routing_ == Routing::ecmp && !spread) {
        const std::uint64_t port = static_cast<std::uint64_t>(at) << 32 |
                                   static_cast<std::uint32_t>(nic);
        const std::uint64_t hash = mixed(seed_ ^ mixed(key ^ mixed(port)));
        const std::uint32_t link = links[hash % links.size()];
        out.push_back({link, part});
        next[links_[link].to] += part;
        continue;
      }
      spread_over(links, part, next, out);
    }
    here = std::move(next);
  }
  return length;
}

void Switches::spread_over(const std::vector<std::uint32_t>& links, double part,
                           std::map<int, double>& next, std::vector<Part>& out) const {
  double rates = 0;
  for (const std::uint32_t l : links) rates += links_[l].rate;
  for (const std::uint32_t l : links) {
    const double share = rounded(part * links_[l].rate / rates);
    out.push_back({l, share});
    next[links_[l].to] += share;
  }
}

// Links to switches of the next higher tier.
std::vector<std::uint32_t> Switches::upward(int at) const {
  const Tier here = tiers_[static_cast<std::size_t>(at)];
  std::vector<std::uint32_t> links;
  for (const std::uint32_t l : out_[static_cast<std::size_t>(at)]) {
    const Tier there = tiers_[static_cast<std::size_t>(links_[l].to)];
    if (there > here && there <= Tier::core) links.push_back(l);
  }
  return links;
}

int Switches::route_up(int node, int nic, double whole, std::vector<Part>& out) const {
  std::map<int, double> here{{attached(node, nic), whole}};
  for (int length = 0;; ++length) {
    std::map<int, double> next;
    for (const auto& [at, part] : here) spread_over(upward(at), part, next, out);
    if (next.empty()) return length;
    here = std::move(next);
  }
}

std::string Switches::name(std::size_t link) const {
  const Link& l = links_[link];
  const std::string beside = l.number > 0 ? fmt::format(", link {}", l.number) : "";
  return fmt::format("{} to {}{}", names_[static_cast<std::size_t>(l.from)],
                     names_[static_cast<std::size_t>(l.to)], beside);
}

std::string Switches::tier(std::size_t link) const {
  const auto of = [&](int at) {
    return kTierNames[static_cast<std::size_t>(tiers_[static_cast<std::size_t>(at)])];
  };
  return fmt::format("{} to {}", of(links_[link].from), of(links_[link].to));
}

std::vector<std::pair<std::string, int>> Switches::layers() const {
  std::vector<std::pair<std::string, int>> layers;
  for (std::size_t t = 0; t < std::size(kTierNames); ++t) {
    const auto count = std::ranges::count(tiers_, static_cast<Tier>(t));
    if (count > 0) layers.emplace_back(kTierNames[t], static_cast<int>(count));
  }
  return layers;
}

}  // namespace engine
