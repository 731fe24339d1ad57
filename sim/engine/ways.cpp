#include "sim/engine/ways.hpp"

#include <algorithm>
#include <map>

#include "core/check.hpp"

namespace engine {
namespace {

using Key = std::vector<std::uint64_t>;

// Alike are messages at one level of the plan, between alike ranks over alike links.
class Teller {
 public:
  Teller(const MessagePlan& plan, const Topology& topology, const Symmetry* symmetry)
      : plan_(plan), topology_(topology), symmetry_(symmetry) {
    if (!plan.ring) levels_ = levels(plan);
  }

  Key key(std::size_t m, std::span<const int> ranks) {
    const int from = ranks[static_cast<std::size_t>(plan_.messages[m].from)];
    const int to = ranks[static_cast<std::size_t>(plan_.messages[m].to)];
    Key key{plan_.ring ? 0 : static_cast<std::uint64_t>(levels_[m]), fold_of(from), fold_of(to)};
    if (symmetry_ == nullptr || plan_.ring) return key;
    topology_.route(from, to, {}, true, route_);
    std::map<std::uint64_t, std::uint64_t> crossed;
    for (const Network::Hop& h : route_.hops) ++crossed[symmetry_->class_of(h.link)];
    for (const auto& [link, times] : crossed) key.insert(key.end(), {link, times});
    return key;
  }

  std::uint64_t fold_of(int rank) const {
    return static_cast<std::uint64_t>(
        symmetry_ == nullptr ? rank : symmetry_->fold().of[static_cast<std::size_t>(rank)]);
  }

 private:
  const MessagePlan& plan_;
  const Topology& topology_;
  const Symmetry* symmetry_;
  std::vector<int> levels_;
  Route route_;
};

Way way_of(const std::map<std::uint32_t, double>& weights, std::int64_t latency) {
  Way way{{}, latency};
  for (const auto& [link, weight] : weights) way.hops.push_back({link, weight});
  return way;
}

}  // namespace

FoldedGroup fold_group(const MessagePlan& plan, std::span<const int> ranks,
                       const Topology& topology, const Symmetry* symmetry) {
  FoldedGroup group;
  Teller teller(plan, topology, symmetry);
  std::map<std::uint64_t, int> kinds;
  for (const int rank : ranks) {
    const auto [at, fresh] =
        kinds.try_emplace(teller.fold_of(rank), static_cast<int>(kinds.size()));
    group.kinds.push_back(at->second);
    if (!fresh) continue;
    const auto fold = static_cast<std::size_t>(at->first);
    group.members.push_back(symmetry == nullptr ? rank : symmetry->fold().first[fold]);
  }
  std::map<Key, std::int64_t> known;
  for (std::size_t m = 0; m < plan.messages.size() && !plan.ring; ++m)
    group.message_kinds.push_back(
        known.try_emplace(teller.key(m, ranks), static_cast<std::int64_t>(known.size()))
            .first->second);
  group.plan = fold_plan(plan, group.kinds, group.message_kinds, &group.first);
  return group;
}

std::vector<Way> ways_of(const MessagePlan& plan, const FoldedGroup& folded,
                         std::span<const std::vector<int>> alike, const Topology& topology,
                         const Symmetry* symmetry) {
  const auto route = [&](std::uint32_t m, const std::vector<int>& ranks, bool spread, Route& out) {
    topology.route(ranks[static_cast<std::size_t>(plan.messages[m].from)],
                   ranks[static_cast<std::size_t>(plan.messages[m].to)],
                   plan.ring ? std::span<const int>(ranks) : std::span<const int>(), spread, out);
  };
  std::vector<Way> ways;
  Route out;
  std::map<std::uint32_t, double> weights;
  for (std::size_t f = 0; f < folded.first.size(); ++f) {
    const std::uint32_t m = folded.first[f];
    route(m, alike.front(), symmetry != nullptr, out);
    weights.clear();
    for (const Network::Hop& h : out.hops)
      weights[symmetry == nullptr ? h.link : symmetry->class_of(h.link)] += h.weight;
    if (symmetry != nullptr) {
      const auto sender =
          alike.front()[static_cast<std::size_t>(plan.messages[m].from)];
      const Fold& fold = symmetry->fold();
      const int of = fold.of[static_cast<std::size_t>(sender)];
      const double messages = fold.ranks[static_cast<std::size_t>(of)] *
                              static_cast<double>(folded.plan.messages[f].copies);
      for (auto& [link, weight] : weights)
        weight = weight * messages / symmetry->classes()[link].links;
    }
    ways.push_back(way_of(weights, out.latency));
  }
  if (symmetry == nullptr || !topology.hashed()) return ways;

  // Of hashed routes the most loaded link of each class.
  Teller teller(plan, topology, symmetry);
  std::map<Key, std::size_t> index;
  for (std::size_t f = 0; f < folded.first.size(); ++f)
    index.emplace(teller.key(folded.first[f], alike.front()), f);
  std::vector<std::map<std::uint32_t, double>> loads(folded.first.size());
  for (const std::vector<int>& ranks : alike)
    for (std::uint32_t m = 0; m < plan.messages.size(); ++m) {
      const auto at = index.find(teller.key(m, ranks));
      PLANNER_CHECK(at != index.end(), "a group that is not alike");
      route(m, ranks, false, out);
      for (const Network::Hop& h : out.hops) loads[at->second][h.link] += h.weight;
    }
  for (std::size_t f = 0; f < ways.size(); ++f) {
    weights.clear();
    for (const auto& [link, load] : loads[f]) {
      double& most = weights[symmetry->class_of(link)];
      most = std::max(most, load);
    }
    ways[f] = way_of(weights, ways[f].latency);
  }
  return ways;
}

std::vector<Way> thinned(std::vector<Way> ways, double part, const Topology& topology,
                         const Symmetry* symmetry) {
  for (Way& way : ways)
    for (Network::Hop& h : way.hops) {
      const std::uint32_t link = symmetry == nullptr ? h.link : symmetry->classes()[h.link].first;
      if (is_network(topology.links()[link].kind)) h.weight *= part;
    }
  return ways;
}

}  // namespace engine
