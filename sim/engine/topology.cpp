#include "sim/engine/topology.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"

namespace engine {
namespace {

double per_picosecond(core::BytesPerSecond rate) { return rate.value() * 1e-12; }

bool bridges(const cost::Machine& m) { return m.pair.value() > 0 && !m.meshed; }

}  // namespace

Topology::Topology(int ranks, const cost::Machine& m, std::span<const WeakLink> weak)
    : per_node_(m.gpus_per_node), latency_(core::to_picoseconds(m.link_latency).value()),
      pair_latency_(core::to_picoseconds(m.pair_latency).value()),
      network_latency_(core::to_picoseconds(m.internode_latency).value()),
      broken_(static_cast<std::size_t>(ranks), false) {
  std::vector<double> share(static_cast<std::size_t>(ranks), 1);
  for (const WeakLink& w : weak) {
    PLANNER_CHECK(w.rank >= 0 && w.rank < ranks && w.share >= 0 && w.share <= 1);
    broken_[static_cast<std::size_t>(w.rank)] = w.share == 0;
    if (w.share > 0) share[static_cast<std::size_t>(w.rank)] = w.share;
  }
  const double port = per_picosecond(m.link), network = per_picosecond(m.internode);
  for (std::size_t rank = 0; rank < share.size(); ++rank) {
    port_out_.push_back(add(LinkKind::port_out, rank, port * share[rank]));
    port_in_.push_back(add(LinkKind::port_in, rank, port * share[rank]));
  }
  for (std::size_t first = 0; bridges(m) && first + 1 < share.size(); first += 2)
    pair_.push_back(add(LinkKind::pair, first / 2, per_picosecond(m.pair)));
  const auto per_node = static_cast<std::size_t>(per_node_);
  for (std::size_t first = 0; network > 0 && first < share.size(); first += per_node) {
    node_out_.push_back(add(LinkKind::node_out, first / per_node, network));
    node_in_.push_back(add(LinkKind::node_in, first / per_node, network));
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
  return (!apart && !around) || !node_out_.empty();
}

void Topology::route(int from, int to, Route& out) const {
  PLANNER_CHECK(reaches(from, to), "a message to another node without a network");
  const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
  const auto node_a = static_cast<std::size_t>(from / per_node_);
  const auto node_b = static_cast<std::size_t>(to / per_node_);
  const bool around = broken_[a] || broken_[b];
  out.latency = latency_;
  if (node_a != node_b || around) {
    out.latency = network_latency_;
    out.links = {port_out_[a], node_out_[node_a], node_in_[node_b], port_in_[b]};
  } else if (!pair_.empty() && from / 2 == to / 2) {
    out.latency = pair_latency_;
    out.links = {pair_[a / 2]};
  } else {
    out.links = {port_out_[a], port_in_[b]};
  }
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
