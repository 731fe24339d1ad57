#pragma once
// Internal: what the sweep knows of the moment at which something is done. Of several such moments
// the later one counts; both types order all their values, so the order of asking does not matter.
// Value types.

#include <cstdint>
#include <tuple>

#include "sim/engine/outcome.hpp"

namespace engine {

// When something is done, and while which of its time a party was missing last. Of equal times
// the one that tells most of missing parties counts, whatever the order of asking.
struct Stamp {
  std::int64_t time = 0;
  std::int64_t missing_from = 0, missing_to = 0;
  void spend(std::size_t, std::int64_t duration) { time += duration; }
  void keep_later(const Stamp& other) {
    if (std::tie(other.time, other.missing_to, other.missing_from) >
        std::tie(time, missing_to, missing_from))
      *this = other;
  }
};
// With what the chain that led there was made of. Of chains that are equal in all else the one
// that spent most on the first kind that differs.
struct PathStamp : Stamp {
  PathTimes spent{};
  void spend(std::size_t kind, std::int64_t duration) {
    time += duration;
    spent[kind] += duration;
  }
  void keep_later(const PathStamp& other) {
    if (std::tie(other.time, other.missing_to, other.missing_from, other.spent) >
        std::tie(time, missing_to, missing_from, spent))
      *this = other;
  }
};

}  // namespace engine
