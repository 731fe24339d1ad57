#include "sim/engine/network.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"

namespace engine {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

std::uint32_t Network::add_link(double capacity) {
  PLANNER_CHECK(capacity > 0, "a link without capacity");
  links_.push_back({.capacity = capacity});
  return static_cast<std::uint32_t>(links_.size() - 1);
}

std::uint32_t Network::add_path(std::span<const Hop> hops) {
  PLANNER_CHECK(!hops.empty());
  double own = kInfinite;
  for (const Hop& h : hops) {
    PLANNER_CHECK(h.link < links_.size() && h.weight > 0);
    own = std::min(own, links_[h.link].capacity / h.weight);
  }
  for (const Hop& h : hops)
    wanted_.push_back(static_cast<std::uint64_t>(
        std::ceil(h.weight * own / links_[h.link].capacity * static_cast<double>(kFull))));
  own_rates_.push_back(own);
  hops_.insert(hops_.end(), hops.begin(), hops.end());
  first_hop_.push_back(static_cast<std::uint32_t>(hops_.size()));
  return static_cast<std::uint32_t>(first_hop_.size() - 2);
}

std::span<const Network::Hop> Network::hops(std::uint32_t path) const {
  const std::uint32_t first = first_hop_[path];
  return std::span<const Hop>(hops_).subspan(first, first_hop_[path + 1] - first);
}

void Network::carry(std::uint32_t path, double bytes) {
  for (const Hop& h : hops(path)) links_[h.link].carried += h.weight * bytes;
}

double Network::load(std::uint32_t link) const {
  double sum = 0;
  for (const std::uint32_t f : links_[link].flows)
    for (const Hop& h : hops(flows_[f].path))
      if (h.link == link) sum += h.weight * flows_[f].rate;
  return sum;
}

std::uint32_t Network::insert(std::uint32_t message, std::uint32_t path, double bytes,
                              std::int64_t now) {
  PLANNER_CHECK(bytes >= 0);
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t f = free_.back();
  free_.pop_back();
  flows_[f] = {.message = message, .path = path, .bytes = bytes, .left = bytes, .since = now,
               .end = kNever, .arrival = arrivals_++, .live = true, .fresh = true};
  ++in_flight_;
  for (std::uint32_t h = first_hop_[path]; h < first_hop_[path + 1]; ++h) {
    links_[hops_[h].link].flows.push_back(f);
    links_[hops_[h].link].wanted += wanted_[h];
  }
  if (sharing_ == Sharing::exclusive) order_.push_back(f);
  return f;
}

void Network::send(std::uint32_t message, std::uint32_t path, double bytes, std::int64_t now) {
  const std::uint32_t f = insert(message, path, bytes, now);
  begun_.push_back(f);
  if (bytes > 0) return;
  move_end(f, now);
}

void Network::add(std::uint32_t message, const Path& path, double bytes, std::int64_t now) {
  std::vector<Hop> hops;
  for (const std::uint32_t link : path) hops.push_back({link});
  send(message, add_path(hops), bytes, now);
}

void Network::resume(std::uint32_t message, std::uint32_t path, double bytes,
                     std::int64_t since) {
  PLANNER_CHECK(sharing_ == Sharing::shared);
  const std::uint32_t f = insert(message, path, bytes, since);
  flows_[f].next_rate = rate_alone(path);
  flows_[f].fresh = false;
  set_rate(f, since);
}

// The order of a link's messages does not change rates, so the last one takes the place.
void Network::remove(std::uint32_t f) {
  Flow& flow = flows_[f];
  for (std::uint32_t h = first_hop_[flow.path]; h < first_hop_[flow.path + 1]; ++h) {
    Link& link = links_[hops_[h].link];
    if (link.can_fill()) changed_.push_back(hops_[h].link);
    link.carried += hops_[h].weight * flow.bytes;
    link.wanted -= wanted_[h];
    *std::ranges::find(link.flows, f) = link.flows.back();
    link.flows.pop_back();
  }
  flow.live = false;
  free_.push_back(f);
  --in_flight_;
}

bool Network::earlier(std::uint32_t a, std::uint32_t b) const {
  const Flow &x = flows_[a], &y = flows_[b];
  return x.end != y.end ? x.end < y.end : x.arrival < y.arrival;
}

void Network::place_end(std::size_t at, std::uint32_t f) {
  ends_[at] = f;
  flows_[f].place = at;
}

void Network::sift_up(std::size_t at) {
  const std::uint32_t f = ends_[at];
  for (; at > 0 && earlier(f, ends_[(at - 1) / 2]); at = (at - 1) / 2)
    place_end(at, ends_[(at - 1) / 2]);
  place_end(at, f);
}

void Network::sift_down(std::size_t at) {
  const std::uint32_t f = ends_[at];
  for (std::size_t child = 2 * at + 1; child < ends_.size(); child = 2 * at + 1) {
    if (child + 1 < ends_.size() && earlier(ends_[child + 1], ends_[child])) ++child;
    if (!earlier(ends_[child], f)) break;
    place_end(at, ends_[child]);
    at = child;
  }
  place_end(at, f);
}

void Network::move_end(std::uint32_t f, std::int64_t time) {
  flows_[f].end = time;
  if (flows_[f].place == kNowhere) {
    flows_[f].place = ends_.size();
    ends_.push_back(f);
  }
  sift_up(flows_[f].place);
  sift_down(flows_[f].place);
}

void Network::drop_end(std::uint32_t f) {
  const std::size_t at = flows_[f].place;
  const std::uint32_t last = ends_.back();
  ends_.pop_back();
  flows_[f].place = kNowhere;
  if (last == f) return;
  place_end(at, last);
  sift_up(at);
  sift_down(flows_[last].place);
}

void Network::collect_ended(std::int64_t now, std::vector<std::uint32_t>& ended) {
  ended_.clear();
  while (next_end() <= now) {
    ended_.push_back(ends_.front());
    drop_end(ends_.front());
  }
  std::ranges::sort(ended_, {}, [this](std::uint32_t f) { return flows_[f].arrival; });
  for (const std::uint32_t f : ended_) ended.push_back(flows_[f].message);
  for (const std::uint32_t f : ended_) remove(f);
}

void Network::settle(std::int64_t now, std::vector<std::uint32_t>& ended) {
  collect_ended(now, ended);
  if (sharing_ == Sharing::shared)
    share(now);
  else
    take_turns(now);
  changed_.clear();
  begun_.clear();
}

void Network::take_turns(std::int64_t now) {
  std::erase_if(order_, [this](std::uint32_t f) { return !flows_[f].live; });
  std::vector<bool> taken(links_.size(), false);
  const auto hold = [&](const Flow& f) {
    for (const Hop& h : hops(f.path)) taken[h.link] = true;
  };
  for (const std::uint32_t f : order_)
    if (flows_[f].rate > 0) hold(flows_[f]);
  for (const std::uint32_t id : order_) {
    Flow& f = flows_[id];
    if (f.rate > 0) continue;
    if (std::ranges::any_of(hops(f.path), [&](const Hop& h) { return taken[h.link]; })) continue;
    f.next_rate = rate_alone(f.path);
    hold(f);
    set_rate(id, now);
  }
}

void Network::set_rate(std::uint32_t id, std::int64_t now) {
  Flow& f = flows_[id];
  if (f.next_rate == f.rate) return;   // its end stands
  f.left = left(f, now);
  f.since = now;
  f.rate = f.next_rate;
  // A hair's breadth above a whole picosecond is rounding, not another picosecond.
  const double lasts = std::ceil(f.left / f.rate * (1 - 1e-12));
  PLANNER_CHECK(lasts < 9e18, "a message that takes longer than the clock counts");
  move_end(id, now + static_cast<std::int64_t>(lasts));
}

}  // namespace engine
