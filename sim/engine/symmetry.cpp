#include "sim/engine/symmetry.hpp"

#include <bit>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "core/check.hpp"
#include "sim/engine/fold_parts.hpp"
#include "sim/engine/message_plan.hpp"

namespace engine {
namespace {

using program::ActionKind;
using program::Algorithm;
using program::Collective;
using program::Group;

// A way in which groups of one kind exchange messages.
struct Pattern {
  Group group{};
  Collective collective{};
  Algorithm algorithm{};
  friend auto operator<=>(const Pattern&, const Pattern&) = default;
};

// All rings are alike, whatever they compute.
Pattern pattern_of(const program::Transfer& t) {
  const bool ring = t.algorithm == Algorithm::ring;
  return {t.group, ring ? Collective::all_reduce : t.collective, t.algorithm};
}

template <class Visit>
void each_pattern(const program::Program& p, int rank, const Visit& visit) {
  const program::RankClass& k = p.classes[static_cast<std::size_t>(p.class_of(rank))];
  std::set<Pattern> patterns;
  for (const program::Action& a : k.actions)
    if (a.kind == ActionKind::collective || a.kind == ActionKind::send)
      if (p.mesh.group_size(k.transfers[a.op].group) > 1)
        patterns.insert(pattern_of(k.transfers[a.op]));
  for (const Pattern& pattern : patterns) visit(pattern);
}

class Edges {
 public:
  struct Edge {
    std::uint32_t from = 0, to = 0;
    std::uint64_t kind = 0;            // pattern and level
    std::uint32_t first_hop = 0, last_hop = 0;
  };
  std::vector<Edge> edges;
  std::vector<Network::Hop> hops;      // of all edges

  Edges(const program::Program& p, const Topology& topology, const Writes* writes)
      : topology_(topology) {
    std::vector<std::vector<Pattern>> of_class(p.classes.size());
    for (std::size_t k = 0; k < p.classes.size(); ++k) {
      const std::vector<int> ranks = p.ranks_of(static_cast<int>(k));
      if (ranks.empty()) continue;
      each_pattern(p, ranks.front(),
                   [&](const Pattern& pattern) { of_class[k].push_back(pattern); });
    }
    std::set<std::pair<Pattern, int>> entered;
    for (int rank = 0; rank < p.mesh.ranks(); ++rank)
      for (const Pattern& pattern : of_class[static_cast<std::size_t>(p.class_of(rank))]) {
        const std::vector<int> members = p.mesh.members(pattern.group, rank);
        if (entered.emplace(pattern, members.front()).second) enter(pattern, members);
      }
    for (std::size_t rank = 0; writes != nullptr && rank < writes->bytes.size(); ++rank)
      if (writes->bytes[rank] > 0) enter(*writes, rank);
  }

 private:
  struct Shape {
    MessagePlan plan;
    std::vector<int> level;
    std::uint64_t kind = 0;
  };

  const Shape& shape_of(const Pattern& pattern, int size) {
    const auto [at, fresh] = shapes_.try_emplace({pattern, size});
    Shape& shape = at->second;
    if (!fresh) return shape;
    shape.plan = message_plan(pattern.collective, pattern.algorithm, size, size, core::DType::u8);
    shape.level = levels(shape.plan);
    shape.kind = std::uint64_t{shapes_.size()} << 32;
    return shape;
  }

  // The highest bit marks a write: the kind of a shape and a positive double do not have it.
  void enter(const Writes& writes, std::size_t rank) {
    constexpr std::uint64_t kWrite = std::uint64_t{1} << 63;
    topology_.route_write(static_cast<int>(rank), writes.to_nodes, route_);
    add_edge(static_cast<int>(rank), static_cast<int>(rank),
             kWrite | std::bit_cast<std::uint64_t>(writes.bytes[rank]));
  }

  // Over route_.
  void add_edge(int from, int to, std::uint64_t kind) {
    const auto first = static_cast<std::uint32_t>(hops.size());
    hops.insert(hops.end(), route_.hops.begin(), route_.hops.end());
    edges.push_back({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), kind, first,
                     static_cast<std::uint32_t>(hops.size())});
  }

  void enter(const Pattern& pattern, std::span<const int> members) {
    const Shape& shape = shape_of(pattern, static_cast<int>(members.size()));
    for (std::size_t m = 0; m < shape.plan.messages.size(); ++m) {
      const Message& message = shape.plan.messages[m];
      const int from = members[static_cast<std::size_t>(message.from)];
      const int to = members[static_cast<std::size_t>(message.to)];
      const std::span<const int> ring = shape.plan.ring ? members : std::span<const int>();
      topology_.route(from, to, ring, true, route_);
      add_edge(from, to, shape.kind + static_cast<std::uint64_t>(shape.level[m]));
    }
  }

  const Topology& topology_;
  std::map<std::pair<Pattern, int>, Shape> shapes_;
  Route route_;
};

// Adds to the keys of ranks and links what crosses them.
void add_edges(const Edges& all, const Fold& ranks, const Fold& links,
               std::vector<FoldKey>& rank_keys, std::vector<FoldKey>& link_keys) {
  std::vector<FoldKey> sent(rank_keys.size()), taken(rank_keys.size()), crossed(link_keys.size());
  for (const Edges::Edge& e : all.edges) {
    const std::span<const Network::Hop> hops =
        std::span(all.hops).subspan(e.first_hop, e.last_hop - e.first_hop);
    FoldKey path{};
    for (const Network::Hop& h : hops) {
      FoldKey hop = key_of(static_cast<std::uint64_t>(links.of[h.link]));
      add(hop, std::bit_cast<std::uint64_t>(h.weight));
      add_any_order(path, hop);
    }
    FoldKey key = key_of(e.kind);
    for (const std::uint64_t part : {std::uint64_t{static_cast<std::uint32_t>(ranks.of[e.from])},
                                     std::uint64_t{static_cast<std::uint32_t>(ranks.of[e.to])},
                                     path[0], path[1]})
      add(key, part);
    add_any_order(sent[e.from], key);
    add_any_order(taken[e.to], key);
    for (const Network::Hop& h : hops) {
      FoldKey crossing = key;
      add(crossing, std::bit_cast<std::uint64_t>(h.weight));
      add_any_order(crossed[h.link], crossing);
    }
  }
  for (std::size_t rank = 0; rank < rank_keys.size(); ++rank)
    for (const std::uint64_t part : {sent[rank][0], sent[rank][1], taken[rank][0], taken[rank][1]})
      add(rank_keys[rank], part);
  for (std::size_t link = 0; link < link_keys.size(); ++link)
    for (const std::uint64_t part : crossed[link]) add(link_keys[link], part);
}

std::vector<FoldKey> first_link_keys(const Topology& topology) {
  std::vector<FoldKey> keys;
  for (const TopologyLink& link : topology.links()) {
    FoldKey key = key_of(static_cast<std::uint64_t>(link.kind));
    add(key, std::bit_cast<std::uint64_t>(link.rate));
    keys.push_back(key);
  }
  return keys;
}

}  // namespace

Symmetry::Symmetry(const program::Program& p, const Groups& groups, const Topology& topology,
                   std::span<const std::uint32_t> marks, const Writes* writes) {
  PLANNER_CHECK(can_fold(p));
  const Edges edges(p, topology, writes);
  fold_ = number(place_keys(p, groups, marks));
  Fold links = number(first_link_keys(topology));
  while (true) {
    std::vector<FoldKey> rank_keys = refined(groups, fold_), link_keys;
    for (const int of : links.of) link_keys.push_back(key_of(static_cast<std::uint64_t>(of)));
    add_edges(edges, fold_, links, rank_keys, link_keys);
    Fold finer = number(rank_keys), finer_links = number(link_keys);
    const bool done = finer.count() == fold_.count() && finer_links.count() == links.count();
    fold_ = std::move(finer);
    links = std::move(finer_links);
    if (done) break;
  }
  for (int c = 0; c < links.count(); ++c) {
    const auto first = static_cast<std::uint32_t>(links.first[static_cast<std::size_t>(c)]);
    classes_.push_back({topology.links()[first].rate,
                        static_cast<double>(links.ranks[static_cast<std::size_t>(c)]), first});
  }
  for (const int of : links.of) class_of_.push_back(static_cast<std::uint32_t>(of));
}

double count_edges(const program::Program& p) {
  double edges = 0;
  for (std::size_t k = 0; k < p.classes.size(); ++k) {
    const std::vector<int> ranks = p.ranks_of(static_cast<int>(k));
    if (ranks.empty()) continue;
    each_pattern(p, ranks.front(), [&](const Pattern& pattern) {
      const bool all = pattern.algorithm == Algorithm::pairwise ||
                       pattern.algorithm == Algorithm::naive_all_reduce;
      const double sent = all ? p.mesh.group_size(pattern.group) - 1 : 2;
      edges += sent * static_cast<double>(ranks.size());
    });
  }
  return edges;
}

bool can_fold(const program::Program& p) {
  for (const program::RankClass& k : p.classes)
    for (const program::Action& a : k.actions) {
      const bool message = a.kind == ActionKind::send || a.kind == ActionKind::receive;
      if (a.kind >= ActionKind::push || (message && p.mesh.pipeline < 2)) return false;
    }
  return true;
}

}  // namespace engine
