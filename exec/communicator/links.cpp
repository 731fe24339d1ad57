#include "exec/communicator/links.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.hpp"

namespace exec {
namespace {

std::chrono::nanoseconds nanoseconds(core::Seconds s) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(s.value() * 1e9 + 0.5));
}

}  // namespace

PacedLinks::PacedLinks(int ranks, std::optional<Link> every, const std::vector<LinkBetween>& pairs)
    : ranks_(ranks),
      any_(every.has_value() || !pairs.empty()),
      links_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), every) {
  for (const LinkBetween& p : pairs) {
    PLANNER_CHECK(p.from >= 0 && p.from < ranks && p.to >= 0 && p.to < ranks);
    links_[p.from * ranks + p.to] = p.link;
  }
  for (const auto& link : links_) {
    PLANNER_CHECK(!link || (link->bandwidth.value() > 0 && link->latency.value() >= 0));
  }
}

PacedLinks::FlightPtr PacedLinks::send(int from, int to, core::Bytes bytes, Time now) {
  const std::optional<Link>& link = links_[from * ranks_ + to];
  if (!link || from == to) return nullptr;
  const std::scoped_lock lock(mutex_);
  settle(now);
  const double alone_ns = (bytes / link->bandwidth).value() * 1e9;
  const auto flight = std::make_shared<Flight>(
      Flight{from, to, nanoseconds(link->latency), alone_ns});
  flights_.push_back(flight);
  share_ports();
  return flight;
}

PacedLinks::Time PacedLinks::arrival(const Flight& flight, Time now) {
  const std::scoped_lock lock(mutex_);
  settle(now);
  if (flight.arrives) return *flight.arrives;
  double ahead_ns = 0;  // it and what goes before it
  for (const FlightPtr& f : flights_) {
    if (f->from == flight.from && f->to == flight.to) ahead_ns += f->left_ns;
    if (f.get() == &flight) break;
  }
  return at_ + std::chrono::nanoseconds(std::llround(std::ceil(ahead_ns))) + flight.latency;
}

// Lets time pass. A caller may have looked at the clock before another that came first: for it no
// time passes.
void PacedLinks::settle(Time now) {
  const auto end = [this](const FlightPtr& f) {
    return f->share > 0 ? at_ + std::chrono::nanoseconds(std::llround(f->left_ns / f->share))
                        : Time::max();
  };
  for (bool ended = true; ended;) {
    Time to = std::max(now, at_);
    for (const FlightPtr& f : flights_) to = std::min(to, end(f));
    for (const FlightPtr& f : flights_) {
      if (end(f) <= to)
        f->arrives = to + f->latency;
      else
        f->left_ns -= f->share * static_cast<double>((to - at_).count());
    }
    at_ = to;
    ended = std::erase_if(flights_, [](const FlightPtr& f) { return f->arrives.has_value(); }) > 0;
    if (ended) share_ports();
  }
}

// Progressive filling: the port that gives each of its messages least fixes them first.
void PacedLinks::share_ports() {
  struct Port {
    double room = 1;
    int users = 0;
  };
  const auto ranks = static_cast<std::size_t>(ranks_);
  std::vector<Port> out(ranks), in(ranks);
  std::vector<char> taken(ranks * ranks, 0);  // pairs with a message that goes first
  std::vector<Flight*> unfixed;
  for (const FlightPtr& f : flights_) {
    f->share = 0;
    if (std::exchange(taken[f->from * ranks_ + f->to], 1) != 0) continue;
    unfixed.push_back(f.get());
    ++out[f->from].users;
    ++in[f->to].users;
  }
  while (!unfixed.empty()) {
    const Port* tightest = nullptr;
    for (const std::vector<Port>* ports : {&out, &in})
      for (const Port& p : *ports)
        if (p.users > 0 && (!tightest || p.room / p.users < tightest->room / tightest->users))
          tightest = &p;
    const double least = tightest->room / tightest->users;
    std::erase_if(unfixed, [&](Flight* f) {
      if (&out[f->from] != tightest && &in[f->to] != tightest) return false;
      f->share = least;
      for (Port* p : {&out[f->from], &in[f->to]}) p->room = std::max(0.0, p->room - least);
      for (Port* p : {&out[f->from], &in[f->to]}) --p->users;
      return true;
    });
  }
}

}  // namespace exec
