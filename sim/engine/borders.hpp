#pragma once
// Internal: what is known of the meetings at the borders between blocks. Blocks are played in
// rounds. During a round they only read this; between rounds one thread adds who has come.
// A meeting that is held stays known for the next round, in which every party learns of it.
// Thread-compatible.

#include <cstdint>
#include <vector>

#include "sim/engine/blocks.hpp"

namespace engine {

// A meeting at a border whose parties in one block have all come.
struct BorderWait {
  std::uint32_t place = 0, held = 0;   // meetings that were held before it
};

// Whether rounds have been long enough to start threads for the next one.
class WorthThreads {
 public:
  bool threads() const { return operations_ >= rounds_ * kWorthStarting; }
  // operations: of all rounds so far.
  void add_round(std::uint64_t operations) {
    operations_ = operations;
    ++rounds_;
  }

 private:
  // Operations that take longer than starting a thread for them: about a millisecond.
  static constexpr std::uint64_t kWorthStarting = 4096;
  std::uint64_t operations_ = 0, rounds_ = 0;
};

// Stamp: when a party is ready; keep_later() keeps the later one of two.
template <class Stamp>
class Borders {
 public:
  // All parties of a block have come.
  struct Arrival {
    std::uint32_t border = 0;
    Stamp latest{};
  };
  struct Known {
    std::uint32_t held = 0;            // meetings so far
    std::uint32_t arrived = 0;         // blocks that have come to the next one
    Stamp latest{};                    // of these
    Stamp start{};                     // of the latest meeting that was held
  };

  explicit Borders(const Blocks& blocks)
      : borders_(&blocks.borders()), known_(blocks.borders().size()) {}

  const Known& operator[](std::uint32_t border) const { return known_[border]; }

  // True where the meeting is held: all blocks have come.
  bool add(const Arrival& a) {
    Known& k = known_[a.border];
    if (k.arrived == 0)
      k.latest = a.latest;
    else
      k.latest.keep_later(a.latest);
    if (++k.arrived < (*borders_)[a.border].blocks) return false;
    k.start = k.latest;
    k.arrived = 0;
    ++k.held;
    return true;
  }

 private:
  const std::vector<Border>* borders_;
  std::vector<Known> known_;
};

}  // namespace engine
