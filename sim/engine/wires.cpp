#include "sim/engine/wires.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"

namespace engine {
namespace {

double per_picosecond(core::BytesPerSecond rate) { return rate.value() * 1e-12; }

}  // namespace

Wires::Wires(int ranks, const cost::Machine& m, Sharing sharing, std::span<const WeakLink> weak)
    : per_node_(m.gpus_per_node), has_pairs_(m.pair.value() > 0 && !m.meshed),
      latency_(core::to_picoseconds(m.link_latency).value()),
      pair_latency_(core::to_picoseconds(m.pair_latency).value()),
      network_latency_(core::to_picoseconds(m.internode_latency).value()),
      port_rate_(per_picosecond(m.link)), pair_rate_(per_picosecond(m.pair)), network_(sharing),
      broken_(static_cast<std::size_t>(ranks), false),
      sent_(static_cast<std::size_t>(ranks), 0), received_(static_cast<std::size_t>(ranks), 0) {
  std::vector<double> share(static_cast<std::size_t>(ranks), 1);
  for (const WeakLink& w : weak) {
    PLANNER_CHECK(w.rank >= 0 && w.rank < ranks && w.share >= 0 && w.share <= 1);
    broken_[static_cast<std::size_t>(w.rank)] = w.share == 0;
    if (w.share > 0) share[static_cast<std::size_t>(w.rank)] = w.share;
  }
  const double network = per_picosecond(m.internode);
  for (const double s : share) {
    port_out_.push_back(network_.add_link(port_rate_ * s));
    port_in_.push_back(network_.add_link(port_rate_ * s));
  }
  for (int first = 0; has_pairs_ && first + 1 < ranks; first += 2)
    pair_.push_back(network_.add_link(pair_rate_));
  for (int first = 0; network > 0 && first < ranks; first += per_node_) {
    node_out_.push_back(network_.add_link(network));
    node_in_.push_back(network_.add_link(network));
  }
}

bool Wires::reaches(int from, int to) const {
  const bool apart = from / per_node_ != to / per_node_;
  const bool around = broken_[static_cast<std::size_t>(from)] ||
                      broken_[static_cast<std::size_t>(to)];
  return (!apart && !around) || !node_out_.empty();
}

Wires::Route Wires::route(int from, int to) const {
  const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
  const auto node_a = static_cast<std::size_t>(from / per_node_);
  const auto node_b = static_cast<std::size_t>(to / per_node_);
  const bool around = broken_[a] || broken_[b];
  if (node_a == node_b && !around) {
    if (has_pairs_ && from / 2 == to / 2) return {{pair_[a / 2]}, pair_latency_};
    return {{port_out_[a], port_in_[b]}, latency_};
  }
  PLANNER_CHECK(!node_out_.empty(), "a message to another node without a network");
  return {{port_out_[a], node_out_[node_a], node_in_[node_b], port_in_[b]}, network_latency_};
}

std::optional<std::int64_t> Wires::alone(int from, int to, double bytes) const {
  if (from / per_node_ != to / per_node_) return std::nullopt;
  const bool paired = has_pairs_ && from / 2 == to / 2;
  const double wire = std::ceil(bytes / (paired ? pair_rate_ : port_rate_));
  return (paired ? pair_latency_ : latency_) + static_cast<std::int64_t>(wire);
}

void Wires::start(std::uint32_t token, const MessagePlan& plan, std::vector<int> members,
                  std::int64_t now, std::int64_t beside) {
  std::uint32_t e = static_cast<std::uint32_t>(exchanges_.size());
  if (free_exchanges_.empty()) {
    exchanges_.emplace_back();
  } else {
    e = free_exchanges_.back();
    free_exchanges_.pop_back();
  }
  Exchange& x = exchanges_[e];
  x = {token, &plan, std::move(members), {}, {}, plan.messages.size(), beside};
  x.left.assign(x.members.size(), 0);
  for (const Message& m : plan.messages) {
    x.awaits.push_back(m.after);
    ++x.left[static_cast<std::size_t>(m.from)];
    ++x.left[static_cast<std::size_t>(m.to)];
  }
  for (std::uint32_t m = 0; m < plan.messages.size(); ++m)
    if (plan.messages[m].after == 0) launch(e, m, now);
}

void Wires::launch(std::uint32_t exchange, std::uint32_t message, std::int64_t now) {
  std::uint32_t f = static_cast<std::uint32_t>(flights_.size());
  if (free_flights_.empty()) {
    flights_.push_back({exchange, message});
  } else {
    f = free_flights_.back();
    free_flights_.pop_back();
    flights_[f] = {exchange, message};
  }
  const Exchange& x = exchanges_[exchange];
  const Message& m = x.plan->messages[message];
  const Route r = route(x.members[static_cast<std::size_t>(m.from)],
                        x.members[static_cast<std::size_t>(m.to)]);
  begins_.push({now + r.latency + x.beside, f});
}

std::int64_t Wires::next() const {
  const std::int64_t begin = begins_.empty() ? Network::kNever : begins_.top().time;
  return std::min(begin, network_.next_end());
}

void Wires::advance(std::int64_t now, std::vector<Done>& done) {
  while (next() <= now) {
    while (!begins_.empty() && begins_.top().time <= now) {
      const std::uint32_t f = begins_.top().flight;
      begins_.pop();
      const Exchange& x = exchanges_[flights_[f].exchange];
      const Message& m = x.plan->messages[flights_[f].message];
      network_.add(f,
                   route(x.members[static_cast<std::size_t>(m.from)],
                         x.members[static_cast<std::size_t>(m.to)])
                       .path,
                   m.bytes, now);
    }
    ended_.clear();
    network_.settle(now, ended_);
    for (const std::uint32_t f : ended_) {
      arrive(flights_[f], now, done);
      free_flights_.push_back(f);
    }
  }
}

void Wires::arrive(InFlight flight, std::int64_t now, std::vector<Done>& done) {
  const MessagePlan& plan = *exchanges_[flight.exchange].plan;
  const Message& m = plan.messages[flight.message];
  Exchange& x = exchanges_[flight.exchange];
  sent_[static_cast<std::size_t>(x.members[static_cast<std::size_t>(m.from)])] += m.bytes;
  received_[static_cast<std::size_t>(x.members[static_cast<std::size_t>(m.to)])] += m.bytes;
  for (const std::uint32_t next : m.then)
    if (--x.awaits[next] == 0) launch(flight.exchange, next, now);
  leave(x, m.from, done);
  leave(x, m.to, done);
  if (--x.unfinished == 0) free_exchanges_.push_back(flight.exchange);
}

void Wires::leave(Exchange& x, int member, std::vector<Done>& done) {
  if (--x.left[static_cast<std::size_t>(member)] == 0) done.push_back({x.token, member});
}

}  // namespace engine
