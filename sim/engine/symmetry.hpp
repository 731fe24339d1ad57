#pragma once
// Symmetry: which ranks, messages and links behave alike when messages share links, so that one of
// each can be played for all.
//
// The coarsest partition of ranks and links such that, for every way in which groups exchange
// messages, alike ranks send alike messages to alike ranks over alike links, and alike links are
// crossed by as many messages of each kind. It is found by refinement of fold.hpp's keys (colour
// refinement). By induction over time, alike ranks are at the same point of the step, alike
// messages have as much left, and progressive filling gives them one rate; so what is played for
// one of each is what happens to all (tests hold folded and unfolded steps against each other).
// Where routes depend on hashes, the symmetry is that of evenly spread routes; ways.hpp says what
// that leaves out. Ranks on the same place in their node fold, and nodes, rails and pods that
// carry the same load; a straggler or a weak link tells everyone apart who is at another distance
// from it.
//
// O(edges x links of a route) per round, where an edge is a message of one round of one group.
// Immutable after building; thread-safe to read.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/fold.hpp"
#include "sim/engine/topology.hpp"

namespace engine {

struct LinkClass {
  double rate = 0;                     // of one link
  double links = 0;                    // how many
  std::uint32_t first = 0;             // the lowest of them
};

class Symmetry {
 public:
  // marks: as of fold_ranks. writes, where given: what ranks write behind the steps; then ranks
  // that are alike write alike. REQUIRES: no parameter servers.
  Symmetry(const program::Program& program, const Groups& groups, const Topology& topology,
           std::span<const std::uint32_t> marks, const Writes* writes = nullptr);

  const Fold& fold() const { return fold_; }
  const std::vector<LinkClass>& classes() const { return classes_; }
  std::uint32_t class_of(std::uint32_t link) const { return class_of_[link]; }

 private:
  Fold fold_;
  std::vector<LinkClass> classes_;
  std::vector<std::uint32_t> class_of_;
};

// Edges of all groups of a program, one per message of a round: what Symmetry walks in each round
// of refinement. Counted without listing them.
double count_edges(const program::Program& program);

// Programs with parameter servers, and those where a rank sends to one that folds with itself, are
// not folded.
bool can_fold(const program::Program& program);

}  // namespace engine
