#include "sim/engine/wires.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/repeats.hpp"

namespace engine {

Wires::Wires(const Topology& topology, Sharing sharing, const Symmetry* symmetry)
    : topology_(topology), symmetry_(symmetry), sharing_(sharing), network_(sharing),
      sent_(static_cast<std::size_t>(topology.ranks()), 0),
      received_(static_cast<std::size_t>(topology.ranks()), 0) {
  PLANNER_CHECK(symmetry == nullptr || sharing == Sharing::shared,
                "links that are taken in turns tell alike messages apart");
  if (symmetry != nullptr)
    for (const LinkClass& c : symmetry->classes()) network_.add_link(c.rate);
  else
    for (const TopologyLink& link : topology.links()) network_.add_link(link.rate);
  holders_.resize(network_.links());
}

std::size_t Wires::stand_in(int rank) const {
  if (symmetry_ == nullptr) return static_cast<std::size_t>(rank);
  const Fold& fold = symmetry_->fold();
  return static_cast<std::size_t>(
      fold.first[static_cast<std::size_t>(fold.of[static_cast<std::size_t>(rank)])]);
}

double Wires::carried(std::uint32_t link) const {
  return network_.carried(symmetry_ == nullptr ? link : symmetry_->class_of(link));
}

std::vector<double> Wires::carried() const {
  std::vector<double> bytes;
  for (std::uint32_t link = 0; link < topology_.links().size(); ++link)
    bytes.push_back(carried(link));
  return bytes;
}

std::uint32_t Wires::path(std::span<const Network::Hop> hops) {
  std::vector<std::pair<std::uint32_t, double>> key;
  for (const Network::Hop& h : hops) key.emplace_back(h.link, h.weight);
  const auto at = paths_.find(key);
  if (at != paths_.end()) return at->second;
  return paths_.emplace(std::move(key), network_.add_path(hops)).first->second;
}

Cast Wires::cast(const MessagePlan& plan, const std::vector<int>& members) {
  PLANNER_CHECK(symmetry_ == nullptr);
  const FoldedGroup group = fold_group(plan, members, topology_, nullptr);
  return cast(members, ways_of(plan, group, {&members, 1}, topology_, nullptr));
}

Cast Wires::cast(std::vector<int> members, std::span<const Way> ways) {
  Cast cast;
  cast.members = std::move(members);
  for (const Way& way : ways) {
    cast.paths.push_back(path(way.hops));
    cast.latencies.push_back(way.latency);
    for (const Network::Hop& h : way.hops) cast.links.push_back(h.link);
  }
  const std::size_t crossed = cast.links.size();
  core::sort_unique(cast.links);
  cast.apart = crossed == cast.links.size();
  return cast;
}

std::uint32_t Wires::take_exchange() {
  if (free_exchanges_.empty()) {
    free_exchanges_.push_back(static_cast<std::uint32_t>(exchanges_.size()));
    exchanges_.emplace_back();
  }
  const std::uint32_t e = free_exchanges_.back();
  free_exchanges_.pop_back();
  return e;
}

void Wires::start(std::uint32_t token, const MessagePlan& plan, const Cast& cast,
                  std::int64_t now, std::int64_t beside) {
  ++started_;
  const bool free = free_of_others(cast, now);
  const std::uint32_t e = take_exchange();
  Exchange& x = exchanges_[e];
  x.token = token;
  x.plan = &plan;
  x.cast = &cast;
  x.start = now;
  x.beside = beside;
  x.together = free && plan.ring && cast.apart && sharing_ == Sharing::shared;
  ++x.life;
  for (const std::uint32_t link : cast.links) {
    ++holders_[link].exchanges;
    if (x.together) holders_[link].together = e;
  }
  if (x.together)
    step_together(e);
  else
    play(e, now);
}

// Takes apart what is stepped together on the links of the cast.
bool Wires::free_of_others(const Cast& cast, std::int64_t now) {
  bool free = true;
  for (const std::uint32_t link : cast.links) {
    free &= holders_[link].exchanges == 0;
    if (holders_[link].together != kNobody) take_apart(holders_[link].together, now);
  }
  return free;
}

std::int64_t Wires::set_out_delay(const Exchange& x, std::uint32_t message) const {
  return std::max<std::int64_t>(0, x.cast->latencies[message] + x.beside);
}

void Wires::play(std::uint32_t e, std::int64_t now) {
  Exchange& x = exchanges_[e];
  const std::vector<Message>& messages = x.plan->messages;
  x.left.assign(x.cast->members.size(), 0);
  x.unfinished = messages.size();
  x.awaits.assign(messages.size(), 0);
  x.ended.assign(x.plan->ring ? messages.size() : 0, 0);
  for (std::size_t m = 0; m < messages.size(); ++m) {
    x.awaits[m] = messages[m].after;
    ++x.left[static_cast<std::size_t>(messages[m].from)];
    ++x.left[static_cast<std::size_t>(messages[m].to)];
  }
  for (std::uint32_t m = 0; m < messages.size(); ++m)
    if (messages[m].after == 0) launch(e, m, now);
}

std::uint32_t Wires::take_flight(std::uint32_t exchange, std::uint32_t message) {
  if (free_flights_.empty()) {
    free_flights_.push_back(static_cast<std::uint32_t>(flights_.size()));
    flights_.emplace_back();
  }
  const std::uint32_t f = free_flights_.back();
  free_flights_.pop_back();
  flights_[f] = {exchange, message};
  return f;
}

void Wires::launch(std::uint32_t e, std::uint32_t message, std::int64_t now) {
  const std::uint32_t f = take_flight(e, message);
  begins_.push({now + set_out_delay(exchanges_[e], message), f, 0});
}

// The next message of a ring's edge, where the edge before has ended as many.
void Wires::launch_edge(std::uint32_t e, std::size_t edge, std::int64_t now) {
  Exchange& x = exchanges_[e];
  const std::size_t before = edge == 0 ? x.ended.size() - 1 : edge - 1;
  if (x.awaits[edge] == 0 || x.ended[edge] == x.plan->rounds || x.ended[before] < x.ended[edge])
    return;
  x.awaits[edge] = 0;
  launch(e, static_cast<std::uint32_t>(edge), now);
}

std::int64_t Wires::next() const {
  std::int64_t first = network_.next_end();
  if (!begins_.empty()) first = std::min(first, begins_.top().time);
  if (!courses_due_.empty()) first = std::min(first, courses_due_.top().time);
  return due_.empty() ? first : std::min(first, due_since_);
}

void Wires::begin_due(std::int64_t now) {
  while (!begins_.empty() && begins_.top().time <= now) {
    const std::uint32_t f = begins_.top().of;
    begins_.pop();
    const Exchange& x = exchanges_[flights_[f].exchange];
    const std::uint32_t m = flights_[f].message;
    network_.send(f, x.cast->paths[m], x.plan->messages[m].bytes, now);
  }
}

void Wires::advance(std::int64_t now, std::vector<Done>& done) {
  while (next() <= now) {
    done.insert(done.end(), due_.begin(), due_.end());
    due_.clear();
    while (!courses_due_.empty() && courses_due_.top().time <= now) {
      const Timer timer = courses_due_.top();
      courses_due_.pop();
      const Exchange& x = exchanges_[timer.of];
      if (x.together && x.life == timer.life) end_course(timer.of, now, done);
    }
    begin_due(now);
    ended_.clear();
    network_.settle(now, ended_);
    for (const std::uint32_t f : ended_) {
      arrive(flights_[f], now, done);
      free_flights_.push_back(f);
    }
  }
}

void Wires::count(const Exchange& x, std::uint32_t message, double times) {
  const Message& m = x.plan->messages[message];
  const double bytes = m.bytes * times;
  sent_[stand_in(x.cast->members[static_cast<std::size_t>(m.from)])] += bytes * m.copies;
  received_[stand_in(x.cast->members[static_cast<std::size_t>(m.to)])] += bytes * m.arrivals;
}

void Wires::arrive(InFlight flight, std::int64_t now, std::vector<Done>& done) {
  Exchange& x = exchanges_[flight.exchange];
  count(x, flight.message, 1);
  if (x.plan->ring) {
    arrive_round(flight, now);
    if (x.ended[flight.message] < x.plan->rounds) return;
  }
  const Message& m = x.plan->messages[flight.message];
  for (const std::uint32_t next : m.then)
    if (--x.awaits[next] == 0) launch(flight.exchange, next, now);
  leave(x, m.from, done);
  leave(x, m.to, done);
  if (--x.unfinished == 0) finish(flight.exchange);
}

void Wires::arrive_round(InFlight flight, std::int64_t now) {
  Exchange& x = exchanges_[flight.exchange];
  ++x.ended[flight.message];
  x.awaits[flight.message] = 1;        // it is not on its way
  launch_edge(flight.exchange, flight.message, now);
  const std::size_t following = flight.message + 1 == x.ended.size() ? 0 : flight.message + 1;
  if (following != flight.message) launch_edge(flight.exchange, following, now);
}

void Wires::leave(Exchange& x, int member, std::vector<Done>& done) {
  if (--x.left[static_cast<std::size_t>(member)] == 0) done.push_back({x.token, member});
}

void Wires::finish(std::uint32_t e) {
  for (const std::uint32_t link : exchanges_[e].cast->links) {
    --holders_[link].exchanges;
    if (holders_[link].together == e) holders_[link].together = kNobody;
  }
  free_exchanges_.push_back(e);
}

}  // namespace engine
