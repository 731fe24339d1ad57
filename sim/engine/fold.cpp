#include "sim/engine/fold.hpp"

#include <map>
#include <tuple>

#include "core/check.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/link.hpp"
#include "sim/engine/fold_parts.hpp"
#include "sim/program/turns.hpp"

namespace engine {
namespace {

using program::ActionKind;
using program::Group;

bool is_message(Group group) { return group == Group::next || group == Group::previous; }

// A bit per kind of group that the class communicates in.
unsigned groups_used(const program::Program& p, const program::RankClass& k) {
  unsigned used = 0;
  for (const program::Action& a : k.actions) {
    if (!cost::ActionCost::is_transfer(a.kind)) continue;
    const bool serves = a.kind >= ActionKind::push;
    const Group group = k.transfers[a.op].group;
    if (serves)
      used |= 1u << kServerGroup;
    else if (p.mesh.group_size(group) > 1)
      used |= 1u << group_kind(group);
  }
  return used;
}

class GroupFinder {
 public:
  GroupFinder(const program::Program& p, int gpus_per_node) : p_(p), per_node_(gpus_per_node) {
    const auto ranks = static_cast<std::size_t>(p.mesh.ranks());
    for (auto& labels : out_.label) labels.assign(ranks, Groups::kNone);
    for (auto& places : out_.place) places.assign(ranks, 0);
  }

  Groups run() {
    std::vector<unsigned> used;
    for (const program::RankClass& k : p_.classes) used.push_back(groups_used(p_, k));
    for (int rank = 0; rank < p_.mesh.ranks(); ++rank) {
      const unsigned mine = used[static_cast<std::size_t>(p_.class_of(rank))];
      for (std::size_t g = 0; g < kGroupKinds; ++g)
        if ((mine >> g & 1) != 0 && out_.label[g][static_cast<std::size_t>(rank)] == Groups::kNone)
          enter(g, rank);
    }
    return std::move(out_);
  }

 private:
  void enter(std::size_t g, int rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (g == kServerGroup) {
      const int first =
          p_.mesh.is_server(rank) ? 0 : p_.mesh.members(Group::data, rank).front();
      out_.label[g][at] = first;
      out_.place[g][at] = place(Group::data, first);
      return;
    }
    const auto group = static_cast<Group>(g);
    const std::vector<int> members = p_.mesh.members(group, rank);
    const int where = place(group, rank);
    if (is_message(group)) {
      out_.label[g][at] = members.back();
      out_.place[g][at] = where;
      return;
    }
    for (const int member : members) {
      out_.label[g][static_cast<std::size_t>(member)] = members.front();
      out_.place[g][static_cast<std::size_t>(member)] = where;
    }
  }

  int place(Group group, int rank) {
    const cost::Place x = cost::place_of(p_.mesh, group, rank, per_node_);
    return places_.try_emplace({x.size, x.nodes, x.per_node, x.paired},
                               static_cast<int>(places_.size())).first->second;
  }

  const program::Program& p_;
  int per_node_;
  Groups out_;
  std::map<std::tuple<int, int, int, bool>, int> places_;
};

}  // namespace

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

FoldKey key_of(std::uint64_t value) { return {mixed(value), mixed(~value)}; }
void add(FoldKey& key, std::uint64_t value) {
  key[0] = mixed(key[0] ^ value);
  key[1] = mixed(key[1] + ~value);
}
void add_any_order(FoldKey& key, const FoldKey& other) {
  key[0] += other[0];
  key[1] += other[1];
}

Fold number(const std::vector<FoldKey>& keys) {
  Fold fold;
  std::map<FoldKey, int> known;
  fold.of.reserve(keys.size());
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    const auto [at, fresh] = known.try_emplace(keys[rank], fold.count());
    if (fresh) {
      fold.first.push_back(static_cast<int>(rank));
      fold.ranks.push_back(0);
    }
    fold.of.push_back(at->second);
    ++fold.ranks[static_cast<std::size_t>(at->second)];
  }
  return fold;
}

std::vector<FoldKey> place_keys(const program::Program& p, const Groups& groups,
                            std::span<const std::uint32_t> marks) {
  std::vector<FoldKey> keys;
  for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    FoldKey key = key_of(static_cast<std::uint64_t>(p.class_of(rank)));
    for (std::size_t g = 0; g < kGroupKinds; ++g)
      if (groups.label[g][at] != Groups::kNone)
        add(key, g * 1'000'003 + static_cast<std::uint64_t>(groups.place[g][at]));
    if (!marks.empty()) add(key, marks[at]);
    // Of a server's turns beside a worker one is over no link: which one tells servers apart.
    if (program::serves_beside(p.classes[static_cast<std::size_t>(p.class_of(rank))]))
      add(key, static_cast<std::uint64_t>(p.part_of(rank)));
    keys.push_back(key);
  }
  return keys;
}

std::vector<FoldKey> refined(const Groups& groups, const Fold& fold) {
  const std::size_t ranks = fold.of.size();
  std::vector<FoldKey> keys;
  for (const int f : fold.of) keys.push_back(key_of(static_cast<std::uint64_t>(f)));
  std::vector<std::uint64_t> sums(ranks);
  for (std::size_t g = 0; g < kGroupKinds; ++g) {
    const std::vector<int>& labels = groups.label[g];
    const bool message = g == group_kind(Group::next) || g == group_kind(Group::previous);
    const auto fold_key = [&](std::size_t rank) {
      return mixed(static_cast<std::uint64_t>(fold.of[rank]) + g);
    };
    sums.assign(ranks, 0);
    for (std::size_t rank = 0; rank < ranks && !message; ++rank)
      if (labels[rank] != Groups::kNone)
        sums[static_cast<std::size_t>(labels[rank])] += fold_key(rank);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (labels[rank] == Groups::kNone) continue;
      const auto label = static_cast<std::size_t>(labels[rank]);
      add(keys[rank], message ? fold_key(label) : sums[label]);
    }
  }
  return keys;
}

Fold unfolded(int ranks) {
  Fold each;
  for (int rank = 0; rank < ranks; ++rank) {
    each.of.push_back(rank);
    each.first.push_back(rank);
    each.ranks.push_back(1);
  }
  return each;
}

Groups groups_of(const program::Program& program, int gpus_per_node) {
  return GroupFinder(program, gpus_per_node).run();
}

Fold fold_ranks(const program::Program& p, const Groups& groups,
                std::span<const std::uint32_t> marks, bool unfold) {
  PLANNER_CHECK(marks.empty() || marks.size() == static_cast<std::size_t>(p.mesh.ranks()));
  if (unfold) return unfolded(p.mesh.ranks());
  Fold fold = number(place_keys(p, groups, marks));
  while (true) {
    Fold finer = number(refined(groups, fold));
    if (finer.count() == fold.count()) return fold;
    fold = std::move(finer);
  }
}

Fold fold_by_place(const program::Program& p, const Groups& groups,
                   std::span<const std::uint32_t> kinds) {
  return number(place_keys(p, groups, kinds));
}

}  // namespace engine
