#pragma once
// Folding: ranks that behave alike are played once.
//
// Two ranks fold when they have the same class, the same place on the links of every group that
// they communicate in, the same mark (a straggler has one of its own), and when their groups are
// made of ranks that fold alike: the coarsest such partition, found by refinement. By induction
// over time, ranks of one fold start and end everything together, so folded and unfolded steps are
// equal to the picosecond (tests hold them against each other). A straggler or an odd link thus
// splits off its own fold, and whoever waits for it.
//
// Lengths of a span's parts do not split ranks: all are costed as the longest (cost::ActionCost).
// O(ranks x kinds of groups) per round; rounds grow with the length of the pipeline at most.
// Immutable after building; thread-safe to read.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/program.hpp"

namespace engine {

// Group::tensor .. Group::previous, then the ranks that share parameter servers.
inline constexpr std::size_t kServerGroup = program::kGroups;
inline constexpr std::size_t kGroupKinds = kServerGroup + 1;
constexpr std::size_t group_kind(program::Group group) { return static_cast<std::size_t>(group); }

// The groups that each rank communicates in.
struct Groups {
  static constexpr int kNone = -1;
  // By kind and rank: the group's lowest rank; of next and previous the peer. kNone: not in use.
  std::array<std::vector<int>, kGroupKinds> label;
  // By kind and rank: index of the group's place on the links among the places that occur.
  std::array<std::vector<int>, kGroupKinds> place;
};
Groups groups_of(const program::Program& program, int gpus_per_node);

struct Fold {
  std::vector<int> of;                 // by rank
  std::vector<int> first;              // by fold: its lowest rank
  std::vector<int> ranks;              // by fold: how many
  int count() const { return static_cast<int>(first.size()); }
};

// marks: by rank, what else tells ranks apart; empty: nothing. unfold: every rank by itself.
Fold fold_ranks(const program::Program& program, const Groups& groups,
                std::span<const std::uint32_t> marks, bool unfold);

// Ranks alike in class, place and kind of GPU, whoever they communicate with: they share a
// timetable. kinds: by rank; empty: all alike.
Fold fold_by_place(const program::Program& program, const Groups& groups,
                   std::span<const std::uint32_t> kinds = {});

}  // namespace engine
