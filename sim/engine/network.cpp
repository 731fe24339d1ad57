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
  for (const Hop& h : hops) PLANNER_CHECK(h.link < links_.size() && h.weight > 0);
  hops_.insert(hops_.end(), hops.begin(), hops.end());
  first_hop_.push_back(static_cast<std::uint32_t>(hops_.size()));
  return static_cast<std::uint32_t>(first_hop_.size() - 2);
}

std::span<const Network::Hop> Network::hops(std::uint32_t path) const {
  const std::uint32_t first = first_hop_[path];
  return std::span<const Hop>(hops_).subspan(first, first_hop_[path + 1] - first);
}

double Network::rate_alone(std::uint32_t path) const {
  double rate = kInfinite;
  for (const Hop& h : hops(path)) rate = std::min(rate, links_[h.link].capacity / h.weight);
  return rate;
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
               .end = kNever, .arrival = arrivals_++, .live = true};
  ++in_flight_;
  for (const Hop& h : hops(path)) links_[h.link].flows.push_back(f);
  if (sharing_ == Sharing::exclusive) order_.push_back(f);
  return f;
}

void Network::send(std::uint32_t message, std::uint32_t path, double bytes, std::int64_t now) {
  const std::uint32_t f = insert(message, path, bytes, now);
  changed_.push_back(hops(path).front().link);
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
  set_rate(f, since);
}

// The order of a link's messages does not change rates, so the last one takes the place.
void Network::remove(std::uint32_t f) {
  Flow& flow = flows_[f];
  for (const Hop& h : hops(flow.path)) {
    Link& link = links_[h.link];
    link.carried += h.weight * flow.bytes;
    *std::ranges::find(link.flows, f) = link.flows.back();
    link.flows.pop_back();
    changed_.push_back(h.link);
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
}

void Network::share(std::int64_t now) {
  ++search_;
  for (const std::uint32_t link : changed_) {
    if (links_[link].seen == search_) continue;
    find_part(link);
    fill_part();
    for (const std::uint32_t f : part_flows_) set_rate(f, now);
  }
}

// All messages that share a link with one another, directly or over others, and their links.
void Network::find_part(std::uint32_t link) {
  part_flows_.clear();
  part_links_.assign(1, link);
  links_[link].seen = search_;
  for (std::size_t i = 0; i < part_links_.size(); ++i) {
    for (const std::uint32_t f : links_[part_links_[i]].flows) {
      if (flows_[f].seen == search_) continue;
      flows_[f].seen = search_;
      part_flows_.push_back(f);
      for (const Hop& h : hops(flows_[f].path)) {
        if (links_[h.link].seen == search_) continue;
        links_[h.link].seen = search_;
        part_links_.push_back(h.link);
      }
    }
  }
}

// Progressive filling: the links that give each of their messages least fix them first.
void Network::fill_part() {
  if (part_flows_.size() == 1) {
    flows_[part_flows_[0]].next_rate = rate_alone(flows_[part_flows_[0]].path);
    return;
  }
  for (const std::uint32_t l : part_links_) {
    Link& link = links_[l];
    link.room = link.capacity;
    link.users = link.taken = 0;
    link.open = link.flows.size();
  }
  for (const std::uint32_t f : part_flows_) {
    flows_[f].filled = false;
    for (const Hop& h : hops(flows_[f].path)) links_[h.link].users += h.weight;
  }
  while (true) {
    std::erase_if(part_links_, [this](std::uint32_t l) { return links_[l].open == 0; });
    if (part_links_.empty()) return;
    double least = kInfinite;
    for (const std::uint32_t l : part_links_)
      least = std::min(least, links_[l].room / links_[l].users);
    fill_tight(least);
  }
}

void Network::fill_tight(double rate) {
  touched_.clear();
  for (const std::uint32_t l : part_links_) {
    if (links_[l].room / links_[l].users != rate) continue;
    for (const std::uint32_t f : links_[l].flows) {
      if (flows_[f].filled) continue;
      flows_[f].filled = true;
      flows_[f].next_rate = rate;
      for (const Hop& h : hops(flows_[f].path)) {
        if (links_[h.link].taken == 0) touched_.push_back(h.link);
        links_[h.link].taken += h.weight;
        --links_[h.link].open;
      }
    }
  }
  for (const std::uint32_t l : touched_) {
    Link& link = links_[l];
    link.room = std::max(0.0, link.room - rate * link.taken);
    link.users -= link.taken;
    link.taken = 0;
  }
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
  f.left = std::max(0.0, f.left - f.rate * static_cast<double>(now - f.since));
  f.since = now;
  f.rate = f.next_rate;
  // A hair's breadth above a whole picosecond is rounding, not another picosecond.
  const double lasts = std::ceil(f.left / f.rate * (1 - 1e-12));
  PLANNER_CHECK(lasts < 9e18, "a message that takes longer than the clock counts");
  move_end(id, now + static_cast<std::int64_t>(lasts));
}

}  // namespace engine
