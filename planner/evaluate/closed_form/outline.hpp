#pragma once
// Internal: outlines of passes. The script of a pass (stage/script.hpp) says use by use what is
// read, opened and reduced. Its outline counts uses that are alike, and rows of uses that repeat;
// memory and time of the pass are sums over its leaves (tape.hpp). A search meets the same
// outlines again and again, so they are kept (Outlines).

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/check.hpp"
#include "planner/evaluate/closed_form/kind_rows.hpp"
#include "planner/stage/script.hpp"

namespace planner::closed_form {

// How a stage's passes treat its units.
struct Manner {
  bool overlaps = false;               // transfers overlap with computation
  bool gathers_ahead = false;          // the next use's copies are requested before this one's use
  bool gathers_at_end = false;         // or behind it
  bool gathers = false;                // over the links that reductions take, which follow
  bool reduces = false;                // each unit is reduced when it is complete
  bool stages_buckets = false;         // instead, in last backward passes buckets, through staging
  bool copies = false;                 // kernels read copies of the weights
  bool keeps_root = false;             // the root's copies stay from the first use to the last
};

// Units, a bit of each.
using UnitSet = std::uint8_t;
inline constexpr std::size_t kUnitSets = 1 << kUnits;
inline UnitSet set_of(const stage::Units& units, std::size_t kind) {
  UnitSet set = 0;
  for (const UnitKind u : units) set |= static_cast<UnitSet>(1 << unit_of(u, kind));
  return set;
}

// What is counted, and how often: a few kinds, in place.
template <class What, std::size_t kMost>
class Counts {
 public:
  struct Count {
    What what{};
    std::int64_t times = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  void add(What what, std::int64_t times) {
    for (std::size_t i = 0; i < size_; ++i)
      if (counts_[i].what == what) {
        counts_[i].times += times;
        return;
      }
    PLANNER_CHECK(size_ < kMost, "more kinds than an outline counts");
    counts_[size_++] = {what, times};
  }
  const Count* begin() const { return counts_.data(); }
  const Count* end() const { return counts_.data() + size_; }
  friend bool operator==(const Counts&, const Counts&) = default;

 private:
  std::array<Count, kMost> counts_{};
  std::size_t size_ = 0;
};

// Small, since a search keeps thousands and reads them in any order.
struct Outline {
  struct Completion {
    std::uint8_t unit = 0;
    UnitSet open = 0;                  // whole gradients, this one among them
    friend bool operator==(const Completion&, const Completion&) = default;
  };
  // Uses alike.
  struct Leaf {
    std::uint8_t slot = 0;             // of its piece
    UnitSet reads = 0, asks = 0;       // copies of units; of them, those that nobody asked for
    UnitSet next = 0, keeps = 0;       // the next use's other copies; own ones that it shares
    UnitSet opens = 0, open = 0;       // gradients: opened here; open while the piece runs
    UnitSet done = 0;                  // complete before it
    UnitSet reducing = 0;              // the latest of those
    std::array<Completion, 2> completions{};
    std::uint8_t completes = 0;
    std::int32_t times = 1;
    friend bool operator==(const Leaf&, const Leaf&) = default;
  };
  struct Block {
    std::uint32_t first = 0, last = 0;
    std::int64_t times = 1;
    friend bool operator==(const Block&, const Block&) = default;
  };

  std::vector<Leaf> leaves;
  std::vector<Block> blocks;           // leaves in turn, so many times
  bool stages_buckets = false;         // of a last backward pass, which reduces through staging
  // How often pieces (slots) run, sets of copies are asked for one by one, gradients are opened,
  // and units are complete. Of each kind of layer three pieces, and of the model's ends four.
  Counts<std::uint8_t, 3 * kMostKinds + 4> pieces;
  Counts<UnitSet, 8> asks, opens;
  Counts<std::uint8_t, kUnits> completes;
  friend bool operator==(const Outline&, const Outline&) = default;
};

// Written to `outline`, whose storage is used again. trains: units that have gradients. Leaves that
// differ in what the manner has not are alike.
void outline_of(const stage::Pass& pass, UnitSet trains, const Manner& manner, Outline& outline);

// By what the passes of a chunk depend on, for one question. Equal outlines are one: recomputation
// within layers, for one, changes what pieces take and not which ones there are.
class Outlines {
 public:
  struct Passes { const Outline *forward = nullptr, *backward = nullptr; };
  // rows: has the chunk's.
  const Passes& of(const stage::ScriptQuestion& question, const stage::ChunkShape& chunk,
                   const KindRows& rows, UnitSet trains, const Manner& manner);

 private:
  const Outline* kept(const stage::Pass& pass, UnitSet trains, const Manner& manner);

  // All that passes depend on, by bits.
  struct Key {
    std::uint64_t shape = 0, manner = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct HashOfKey {
    std::size_t operator()(const Key& key) const {
      return static_cast<std::size_t>((key.shape * 0x9e3779b97f4a7c15ULL) ^ key.manner);
    }
  };

  std::unordered_map<Key, Passes, HashOfKey> known_;
  std::unordered_multimap<std::uint64_t, Outline> kept_;  // by a hash
  stage::ChunkScript script_, apart_;  // for a moment; of several kinds
  Outline outline_;                    // for a moment
};

}  // namespace planner::closed_form
