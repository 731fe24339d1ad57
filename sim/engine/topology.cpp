#include "sim/engine/topology.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/repeats.hpp"

namespace engine {
namespace {

double per_picosecond(core::BytesPerSecond rate) { return rate.value() * 1e-12; }

// Few binary digits: sums of such parts are exact, in whatever order.
double part_of(std::size_t nics) {
  return std::ceil(0x1p32 / static_cast<double>(nics)) * 0x1p-32;
}

bool bridges(const cost::Machine& m) { return m.pair.value() > 0 && !m.meshed; }

}  // namespace

Topology::Topology(int ranks, const cost::Machine& m, std::span<const WeakLink> weak) {
  build(ranks, m, weak, true);
}

Topology::Topology(int ranks, const cost::Machine& m, std::span<const WeakLink> weak,
                   const hw_profiles::Fabric& fabric, std::uint64_t seed) {
  build(ranks, m, weak, false);
  const int nodes = (ranks + per_node_ - 1) / per_node_;
  nics_ = fabric.nics_per_node;
  hashed_ = fabric.routing == hw_profiles::Routing::ecmp;
  switch_latency_ = core::to_picoseconds(fabric.switch_latency).value();
  const double nic = per_picosecond(fabric.nic_bandwidth * fabric.nic_efficiency);
  for (std::size_t at = 0; at < static_cast<std::size_t>(nodes * nics_); ++at) {
    nic_out_.push_back(add(LinkKind::nic_out, at, nic));
    nic_in_.push_back(add(LinkKind::nic_in, at, nic));
  }
  switches_.emplace(fabric, nodes, seed);
  first_between_ = static_cast<std::uint32_t>(links_.size());
  for (std::size_t at = 0; at < switches_->links().size(); ++at)
    add(LinkKind::between_switches, at, switches_->links()[at].rate);
}

void Topology::build(int ranks, const cost::Machine& m, std::span<const WeakLink> weak,
                     bool network) {
  per_node_ = m.gpus_per_node;
  latency_ = core::to_picoseconds(m.link_latency).value();
  pair_latency_ = core::to_picoseconds(m.pair_latency).value();
  network_latency_ = core::to_picoseconds(m.internode_latency).value();
  broken_.assign(static_cast<std::size_t>(ranks), false);
  std::vector<double> share(static_cast<std::size_t>(ranks), 1);
  for (const WeakLink& w : weak) {
    PLANNER_CHECK(w.rank >= 0 && w.rank < ranks && w.share >= 0 && w.share <= 1);
    broken_[static_cast<std::size_t>(w.rank)] = w.share == 0;
    if (w.share > 0) share[static_cast<std::size_t>(w.rank)] = w.share;
  }
  const double port = per_picosecond(m.link), wire = per_picosecond(m.internode);
  for (std::size_t rank = 0; rank < share.size(); ++rank) {
    port_out_.push_back(add(LinkKind::port_out, rank, port * share[rank]));
    port_in_.push_back(add(LinkKind::port_in, rank, port * share[rank]));
  }
  for (std::size_t first = 0; bridges(m) && first + 1 < share.size(); first += 2)
    pair_.push_back(add(LinkKind::pair, first / 2, per_picosecond(m.pair)));
  const auto per_node = static_cast<std::size_t>(per_node_);
  for (std::size_t first = 0; network && wire > 0 && first < share.size(); first += per_node) {
    node_out_.push_back(add(LinkKind::node_out, first / per_node, wire));
    node_in_.push_back(add(LinkKind::node_in, first / per_node, wire));
  }
}

std::uint32_t Topology::add(LinkKind kind, std::size_t at, double rate) {
  links_.push_back({kind, static_cast<std::uint32_t>(at), rate});
  return static_cast<std::uint32_t>(links_.size() - 1);
}

bool Topology::reaches(int from, int to) const {
  const bool apart = from / per_node_ != to / per_node_;
  const bool around = broken_[static_cast<std::size_t>(from)] ||
                      broken_[static_cast<std::size_t>(to)];
  return (!apart && !around) || !node_out_.empty() || switches_;
}

void Topology::route(int from, int to, std::span<const int> ring, bool spread, Route& out) const {
  PLANNER_CHECK(reaches(from, to), "a message to another node without a network");
  const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
  const bool around = broken_[a] || broken_[b];
  out.hops.clear();
  out.latency = latency_;
  if (from / per_node_ != to / per_node_ || around) {
    out.hops.push_back({port_out_[a]});
    route_network(from, to, ring, spread, out);
    out.hops.push_back({port_in_[b]});
  } else if (!pair_.empty() && from / 2 == to / 2) {
    out.latency = pair_latency_;
    out.hops.push_back({pair_[a / 2]});
  } else {
    out.hops.push_back({port_out_[a]});
    out.hops.push_back({port_in_[b]});
  }
}

// NICs of the GPU on this place in its node: an even division of all.
void Topology::add_nics(int place, std::vector<int>& nics) const {
  const int first = place * nics_ / per_node_;
  const int last = std::max(first + 1, (place + 1) * nics_ / per_node_);
  for (int nic = first; nic < last; ++nic)
    if (nics.empty() || nics.back() != nic) nics.push_back(nic);
}

void Topology::route_network(int from, int to, std::span<const int> ring, bool spread,
                             Route& out) const {
  const int node_a = from / per_node_, node_b = to / per_node_;
  out.latency = network_latency_;
  if (!switches_) {
    out.hops.push_back({node_out_[static_cast<std::size_t>(node_a)]});
    out.hops.push_back({node_in_[static_cast<std::size_t>(node_b)]});
    return;
  }
  std::vector<int> nics;
  for (const int member : ring)
    if (member / per_node_ == node_a) add_nics(member % per_node_, nics);
  if (nics.empty()) add_nics(to % per_node_, nics);
  core::sort_unique(nics);
  const double part = part_of(nics.size());
  const std::uint64_t key = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to);
  std::vector<Switches::Part> parts;
  int length = 0;
  for (const int nic : nics) {
    out.hops.push_back({nic_out_[static_cast<std::size_t>(node_a * nics_ + nic)], part});
    out.hops.push_back({nic_in_[static_cast<std::size_t>(node_b * nics_ + nic)], part});
    length = std::max(length, switches_->route(node_a, node_b, nic, key, part, spread, parts));
  }
  add_parts(parts, out);
  out.latency += switch_latency_ * length;
}

void Topology::add_parts(std::vector<Switches::Part>& parts, Route& out) const {
  std::ranges::sort(parts, {}, &Switches::Part::link);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint32_t link = first_between_ + parts[i].link;
    if (i > 0 && parts[i].link == parts[i - 1].link)
      out.hops.back().weight += parts[i].part;
    else
      out.hops.push_back({link, parts[i].part});
  }
}

void Topology::add_storage(core::BytesPerSecond rate) {
  PLANNER_CHECK(!storage_ && rate.value() > 0);
  storage_ = add(LinkKind::storage, 0, per_picosecond(rate));
}

void Topology::route_write(int rank, bool to_node, Route& out) const {
  out.hops.clear();
  if (to_node) return route_network(rank, (rank + per_node_) % ranks(), {}, true, out);
  PLANNER_CHECK(storage_);
  const int node = rank / per_node_;
  out.latency = network_latency_;
  if (switches_) {
    std::vector<int> nics;
    add_nics(rank % per_node_, nics);
    const double part = part_of(nics.size());
    std::vector<Switches::Part> parts;
    int length = 0;
    for (const int nic : nics) {
      out.hops.push_back({nic_out_[static_cast<std::size_t>(node * nics_ + nic)], part});
      length = std::max(length, switches_->route_up(node, nic, part, parts));
    }
    add_parts(parts, out);
    out.latency += switch_latency_ * length;
  } else if (!node_out_.empty()) {
    out.hops.push_back({node_out_[static_cast<std::size_t>(node)]});
  }
  out.hops.push_back({*storage_});
}

std::string Topology::name(std::uint32_t link) const {
  const TopologyLink& l = links_[link];
  const auto nics = static_cast<std::uint32_t>(std::max(1, nics_));
  switch (l.kind) {
    case LinkKind::port_out: return fmt::format("GPU {} out", l.at);
    case LinkKind::port_in: return fmt::format("GPU {} in", l.at);
    case LinkKind::pair: return fmt::format("bridge of GPUs {} and {}", 2 * l.at, 2 * l.at + 1);
    case LinkKind::node_out: return fmt::format("node {} out", l.at);
    case LinkKind::node_in: return fmt::format("node {} in", l.at);
    case LinkKind::nic_out: return fmt::format("node {} NIC {} out", l.at / nics, l.at % nics);
    case LinkKind::nic_in: return fmt::format("node {} NIC {} in", l.at / nics, l.at % nics);
    case LinkKind::storage: return "storage in";
    case LinkKind::between_switches: break;
  }
  return switches_->name(l.at);
}

std::string Topology::tier(std::uint32_t link) const {
  constexpr const char* kNames[] = {"GPU out",  "GPU in",  "bridge",  "node out",
                                    "node in", "NIC out", "NIC in"};
  const TopologyLink& l = links_[link];
  if (l.kind == LinkKind::storage) return name(link);
  return l.kind == LinkKind::between_switches ? switches_->tier(l.at)
                                              : kNames[static_cast<std::size_t>(l.kind)];
}

std::vector<std::pair<std::string, int>> Topology::layers() const {
  std::vector<std::pair<std::string, int>> layers{{"GPU", ranks()}};
  if (!switches_) {
    layers.emplace_back("node", (ranks() + per_node_ - 1) / per_node_);
    return layers;
  }
  layers.emplace_back("NIC", static_cast<int>(nic_out_.size()));
  for (auto& layer : switches_->layers()) layers.push_back(std::move(layer));
  return layers;
}

Expected expected(const cost::Machine& m, int from, int to, double bytes, double share) {
  const bool apart = from / m.gpus_per_node != to / m.gpus_per_node;
  const bool paired = !apart && bridges(m) && from / 2 == to / 2;
  core::BytesPerSecond rate = paired ? m.pair : m.link;
  if (apart) rate = std::min(rate, m.internode * share);
  const core::Seconds latency =
      apart ? m.internode_latency : paired ? m.pair_latency : m.link_latency;
  return {core::to_picoseconds(latency).value(),
          static_cast<std::int64_t>(std::ceil(bytes / per_picosecond(rate)))};
}

}  // namespace engine
