#pragma once
// Internal: how folds are found. Ranks (and links, symmetry.hpp) are told apart by keys, which are
// refined until no round tells more apart. Pure; thread-safe.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/fold.hpp"

namespace engine {

// What tells one from others, as two independent digests: equal digests are taken for equal.
using FoldKey = std::array<std::uint64_t, 2>;

// Spreads the bits of a value (splitmix64's finaliser [splitmix]).
std::uint64_t mixed(std::uint64_t x);
FoldKey key_of(std::uint64_t value);
// The order of additions counts.
void add(FoldKey& key, std::uint64_t value);
// The order of additions does not count.
void add_any_order(FoldKey& key, const FoldKey& other);

// Numbers keys in the order of the lowest rank that has them.
Fold number(const std::vector<FoldKey>& keys);

// By rank: class, places of its groups on the links, mark.
std::vector<FoldKey> place_keys(const program::Program& p, const Groups& groups,
                                std::span<const std::uint32_t> marks);

// By rank: its fold, and for each of its groups how often which fold is among the members.
std::vector<FoldKey> refined(const Groups& groups, const Fold& fold);

// Every rank by itself.
Fold unfolded(int ranks);

}  // namespace engine
