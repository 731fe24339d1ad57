#include "sim/engine/network.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"

namespace engine {

std::uint32_t Network::add_link(double capacity) {
  PLANNER_CHECK(capacity > 0, "a link without capacity");
  capacity_.push_back(capacity);
  carried_.push_back(0);
  return static_cast<std::uint32_t>(capacity_.size() - 1);
}

void Network::add(std::uint32_t message, Path path, double bytes, std::int64_t now) {
  PLANNER_CHECK(!path.empty() && bytes >= 0);
  flows_.push_back({message, std::move(path), bytes, bytes, 0, now, kNever});
}

std::int64_t Network::next_end() const {
  std::int64_t first = kNever;
  for (const Flow& f : flows_) first = std::min(first, f.end);
  return first;
}

void Network::settle(std::int64_t now, std::vector<std::uint32_t>& ended) {
  for (const Flow& f : flows_) {
    if (f.end > now && f.bytes > 0) continue;
    ended.push_back(f.message);
    for (const std::uint32_t link : f.path) carried_[link] += f.bytes;
  }
  std::erase_if(flows_, [now](const Flow& f) { return f.end <= now || f.bytes == 0; });
  if (sharing_ == Sharing::shared)
    share();
  else
    take_turns();
  set_rates(now);
}

// Progressive filling: the link that gives each of its messages least fixes them first.
void Network::share() {
  std::vector<double> room = capacity_;
  std::vector<int> users(capacity_.size(), 0);
  for (Flow& f : flows_) {
    f.filled = false;
    for (const std::uint32_t link : f.path) ++users[link];
  }
  for (std::size_t left = flows_.size(); left > 0;) {
    double least = std::numeric_limits<double>::infinity();
    std::uint32_t tightest = 0;
    for (std::uint32_t l = 0; l < room.size(); ++l) {
      if (users[l] == 0 || room[l] / users[l] >= least) continue;
      least = room[l] / users[l];
      tightest = l;
    }
    for (Flow& f : flows_) {
      if (f.filled || std::ranges::find(f.path, tightest) == f.path.end()) continue;
      f.filled = true;
      f.next_rate = least;
      --left;
      for (const std::uint32_t link : f.path) {
        room[link] = std::max(0.0, room[link] - least);
        --users[link];
      }
    }
  }
}

void Network::take_turns() {
  std::vector<bool> taken(capacity_.size(), false);
  const auto hold = [&](const Flow& f) {
    for (const std::uint32_t link : f.path) taken[link] = true;
  };
  for (const Flow& f : flows_)
    if (f.rate > 0) hold(f);
  for (Flow& f : flows_) {
    f.next_rate = f.rate;
    if (f.rate > 0) continue;
    if (std::ranges::any_of(f.path, [&](std::uint32_t l) { return taken[l]; })) continue;
    f.next_rate = std::numeric_limits<double>::infinity();
    for (const std::uint32_t link : f.path) f.next_rate = std::min(f.next_rate, capacity_[link]);
    hold(f);
  }
}

void Network::set_rates(std::int64_t now) {
  for (Flow& f : flows_) {
    if (f.next_rate == f.rate) continue;  // its end stands
    f.left = std::max(0.0, f.left - f.rate * static_cast<double>(now - f.since));
    f.since = now;
    f.rate = f.next_rate;
    // A hair's breadth above a whole picosecond is rounding, not another picosecond.
    const double lasts = std::ceil(f.left / f.rate * (1 - 1e-12));
    PLANNER_CHECK(lasts < 9e18, "a message that takes longer than the clock counts");
    f.end = now + static_cast<std::int64_t>(lasts);
  }
}

}  // namespace engine
