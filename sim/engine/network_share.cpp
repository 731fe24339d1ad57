// Max-min fair rates, found anew where they can have changed (network.hpp).
#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "sim/engine/network.hpp"

namespace engine {
namespace {

// So often a part grows by those flows alone whose rates cannot stay. Then it takes all that share
// links, directly or over others: a change that goes round a whole ring would grow it step by step.
constexpr int kSmallGrowths = 3;
constexpr std::size_t kFewRates = 48;  // that are faster searched than sorted
constexpr double kNoRate = std::numeric_limits<double>::infinity();

}  // namespace

void Network::share(std::int64_t now) {
  ++settles_;
  for (const std::uint32_t l : changed_) links_[l].changed = settles_;
  for (const std::uint32_t f : begun_)
    for (const Hop& h : hops(flows_[f].path)) links_[h.link].changed = settles_;
  const auto start = [&](std::uint32_t f) {
    if (!is_to_find(flows_[f])) return;
    find_anew(f);
    for (const std::uint32_t inside : part_flows_) set_rate(inside, now);
  };
  for (const std::uint32_t f : begun_)
    if (flows_[f].live) start(f);
  for (const std::uint32_t l : changed_)
    for (const std::uint32_t f : links_[l].flows) start(f);
}

// Flows that have no rate yet, and those held back by a link where a message began or ended.
bool Network::is_to_find(const Flow& f) const {
  if (f.found == settles_) return false;
  return f.fresh || (f.held_by != kOwn && links_[f.held_by].changed == settles_);
}

// The part of a flow: those whose rates its own rate decides, directly or over one another.
void Network::find_anew(std::uint32_t flow) {
  ++search_;
  part_flows_.clear();
  part_links_.clear();
  crossings_ = 0;
  takes_all_ = false;
  take_inside(flow);
  for (int growths = 0; !fill_alike(); ++growths) {
    find_beside();
    ++fillings_;
    if (fill_part()) {
      for (const auto& [rate, f] : by_rate_) flows_[f].held_by = flows_[f].next_held_by;
      break;
    }
    takes_all_ = growths >= kSmallGrowths;
    // filled_ has the flows whose rates cannot stay.
    for (const std::uint32_t f : takes_all_ ? beside_ : filled_) take_inside(f);
  }
  for (const std::uint32_t f : part_flows_) {
    flows_[f].found = settles_;
    flows_[f].fresh = false;
  }
}

void Network::take_inside(std::uint32_t flow) {
  if (flows_[flow].inside == search_) return;
  flows_[flow].inside = search_;
  std::size_t next = part_flows_.size();
  part_flows_.push_back(flow);
  for (; next < part_flows_.size(); ++next)
    for (const Hop& h : hops(flows_[part_flows_[next]].path)) {
      Link& link = links_[h.link];
      if (!link.can_fill()) continue;
      if (link.seen != search_) take_link(h.link);
      link.weight_inside += h.weight;
      ++link.inside;
      ++crossings_;
    }
}

// Adds the link to the part, and of its flows those that are to be found, and those that it holds
// back: a flow inside that changes its rate changes theirs. takes_all_: all of its flows.
void Network::take_link(std::uint32_t l) {
  Link& link = links_[l];
  link.seen = search_;
  link.weight_inside = 0;
  link.inside = 0;
  part_links_.push_back(l);
  for (const std::uint32_t f : link.flows) {
    if (flows_[f].inside == search_) continue;
    if (!takes_all_ && flows_[f].held_by != l && !is_to_find(flows_[f])) continue;
    flows_[f].inside = search_;
    part_flows_.push_back(f);
  }
}

// The most frequent part: every flow crosses every link, and nobody else does. All get what the
// scarcest link gives each, where nobody has less by itself.
bool Network::fill_alike() {
  if (crossings_ != part_flows_.size() * part_links_.size()) return false;
  double rate = kNoRate;
  std::uint32_t held_by = kOwn;
  for (const std::uint32_t l : part_links_) {
    const Link& link = links_[l];
    if (link.inside != link.flows.size()) return false;
    const double each = link.capacity / link.weight_inside;
    if (each >= rate) continue;
    rate = each;
    held_by = l;
  }
  if (part_links_.empty()) {           // then there is one flow
    flows_[part_flows_.front()].next_rate = own_rates_[flows_[part_flows_.front()].path];
    flows_[part_flows_.front()].held_by = kOwn;
    return true;
  }
  for (const std::uint32_t f : part_flows_)
    if (own_rates_[flows_[f].path] < rate) return false;
  for (const std::uint32_t f : part_flows_) {
    flows_[f].next_rate = rate;
    flows_[f].held_by = held_by;
  }
  return true;
}

// Flows on the part's links that are not inside, and all by rate.
void Network::find_beside() {
  beside_.clear();
  by_rate_.clear();
  for (const std::uint32_t l : part_links_) {
    Link& link = links_[l];
    link.room = link.capacity;
    link.users = link.weight_inside;
    link.taken = 0;
    link.open = link.flows.size();
    if (link.inside == link.flows.size()) continue;
    for (const std::uint32_t f : link.flows) {
      if (flows_[f].inside == search_ || flows_[f].beside == search_) continue;
      flows_[f].beside = search_;
      beside_.push_back(f);
    }
  }
  for (const std::uint32_t f : beside_) {
    flows_[f].beside = 0;              // for the next growth
    flows_[f].filled = false;
    by_rate_.emplace_back(flows_[f].rate, f);
    for (const Hop& h : hops(flows_[f].path))
      if (links_[h.link].seen == search_) links_[h.link].users += h.weight;
  }
  for (const std::uint32_t f : part_flows_) {
    flows_[f].filled = false;
    by_rate_.emplace_back(own_rates_[flows_[f].path], f);
  }
}

// Progressive filling of the part. False: some flows beside it cannot keep their rates; filled_ has
// them.
bool Network::fill_part() {
  open_links_ = part_links_;
  for (const std::uint32_t l : part_links_) links_[l].each = links_[l].room / links_[l].users;
  const bool sorts = by_rate_.size() > kFewRates;
  if (sorts) std::ranges::sort(by_rate_);
  by_rate_begin_ = 0;
  by_rate_end_ = sorts ? 0 : by_rate_.size();
  while (true) {
    const double next_rate = sorts ? next_in_order() : next_of_few();
    if (next_rate == kNoRate) return true;
    double link_rate = kNoRate;
    std::erase_if(open_links_, [&](std::uint32_t l) {
      if (links_[l].open == 0) return true;
      link_rate = std::min(link_rate, links_[l].each);
      return false;
    });
    const double rate = std::min(link_rate, next_rate);
    if (!fill_round(rate, link_rate)) return false;
    close_round(rate);
  }
}

// The least rate of those who are not filled; in order: also where flows of that rate are.
double Network::next_in_order() {
  while (by_rate_begin_ < by_rate_.size() && flows_[by_rate_[by_rate_begin_].second].filled)
    ++by_rate_begin_;
  by_rate_end_ = by_rate_begin_;
  if (by_rate_begin_ == by_rate_.size()) return kNoRate;
  const double rate = by_rate_[by_rate_begin_].first;
  while (by_rate_end_ < by_rate_.size() && by_rate_[by_rate_end_].first == rate) ++by_rate_end_;
  return rate;
}

double Network::next_of_few() const {
  double least = kNoRate;
  for (const auto& [rate, f] : by_rate_)
    if (rate < least && !flows_[f].filled) least = rate;
  return least;
}

// Fills all that `rate` holds back: those on links that are full at it, and those who have no more
// by themselves. False: filled_ has flows beside the part that would be faster than a full link
// lets them, or whose own full link would not be full.
bool Network::fill_round(double rate, double link_rate) {
  filled_.clear();
  misfits_.clear();
  for (const std::uint32_t l : open_links_) {
    if (link_rate > rate || links_[l].each != rate) continue;
    for (const std::uint32_t f : links_[l].flows) {
      if (flows_[f].filled) continue;
      if (flows_[f].inside != search_ && flows_[f].rate != rate)
        misfits_.push_back(f);
      else
        fill(f, rate, l);
    }
  }
  for (std::size_t i = by_rate_begin_; i < by_rate_end_; ++i) {
    const std::uint32_t f = by_rate_[i].second;
    Flow& flow = flows_[f];
    if (by_rate_[i].first != rate || flow.filled) continue;
    const bool inside = flow.inside == search_;
    if (!inside && flow.held_by != kOwn && links_[flow.held_by].seen == search_)
      misfits_.push_back(f);
    else
      fill(f, rate, inside ? kOwn : flow.held_by);
  }
  if (misfits_.empty()) return true;
  std::swap(filled_, misfits_);
  return false;
}

void Network::fill(std::uint32_t f, double rate, std::uint32_t held_by) {
  Flow& flow = flows_[f];
  flow.filled = true;
  flow.next_rate = rate;
  flow.next_held_by = held_by;
  filled_.push_back(f);
}

// Takes from the links what was filled.
void Network::close_round(double rate) {
  touched_.clear();
  for (const std::uint32_t f : filled_)
    for (const Hop& h : hops(flows_[f].path)) {
      Link& link = links_[h.link];
      if (link.seen != search_) continue;
      if (link.taken == 0) touched_.push_back(h.link);
      link.taken += h.weight;
      --link.open;
    }
  for (const std::uint32_t l : touched_) {
    Link& link = links_[l];
    link.room = std::max(0.0, link.room - rate * link.taken);
    link.users -= link.taken;
    link.taken = 0;
    link.each = link.room / link.users;
  }
}

}  // namespace engine
