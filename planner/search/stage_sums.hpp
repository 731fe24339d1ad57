#pragma once
// Internal: sums of loads over neighbouring layers, and whether a stage of them holds in memory.
// Pure; thread-safe.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/search/stages.hpp"

namespace planner {

class StageSums {
 public:
  // The loads outlive the sums.
  explicit StageSums(const StageLoads& loads) : loads_(loads) {
    if (loads.repeat > 1) return;
    const auto count = static_cast<std::size_t>(loads.count());
    sums_.resize(count + 1);
    const int* entries = loads.entries != nullptr ? loads.entries->data() : nullptr;
    const StageLoad* layers = loads.layers.data();
    StageLoad* sum = sums_.data();
    for (std::size_t l = 0; l < count; ++l)
      sum[l + 1] = plus(sum[l], layers[entries != nullptr ? static_cast<std::size_t>(entries[l])
                                                          : l]);
  }

  // Layers [first, last) as stage r of p.
  StageLoad stage(std::size_t first, std::size_t last, std::int64_t r, std::int64_t p) const {
    StageLoad s = between(first, last);
    if (r == 0) s = plus(s, loads_.embeddings);
    if (r + 1 == p) s = plus(s, loads_.head);
    return s;
  }

  // Of all layers.
  const StageLoad& whole() const { return sums_.back(); }
  // Its time alone. REQUIRES: layers that are stated one by one.
  std::int64_t time(std::size_t first, std::size_t last, std::int64_t r, std::int64_t p) const {
    return sums_[last].time - sums_[first].time + (r == 0 ? loads_.embeddings.time : 0) +
           (r + 1 == p ? loads_.head.time : 0);
  }

 private:
  StageLoad between(std::size_t first, std::size_t last) const {
    if (loads_.repeat > 1) {
      const auto n = static_cast<std::int64_t>(last - first);
      const StageLoad& one = loads_.layers.front();
      return {n * one.time, n * one.state, n * one.kept};
    }
    return {sums_[last].time - sums_[first].time, sums_[last].state - sums_[first].state,
            sums_[last].kept - sums_[first].kept};
  }
  static StageLoad plus(const StageLoad& a, const StageLoad& b) {
    return {a.time + b.time, a.state + b.state, a.kept + b.kept};
  }

  const StageLoads& loads_;
  std::vector<StageLoad> sums_;
};

inline std::int64_t in_flight(const StageLimits& limits, std::int64_t r) {
  return limits.in_flight.empty() ? 1 : limits.in_flight[static_cast<std::size_t>(r)];
}

// Stage r. In doubles: a deep pipeline's bytes on one stage may pass 2^63.
inline bool holds(const StageLoad& s, std::int64_t working, const StageLimits& limits,
                  std::int64_t r) {
  const double bytes = static_cast<double>(s.state) + static_cast<double>(working) +
                       static_cast<double>(s.kept) * static_cast<double>(in_flight(limits, r));
  const std::int64_t most = limits.paces.empty()
                                ? limits.bytes
                                : limits.paces[static_cast<std::size_t>(r)].bytes;
  return bytes <= static_cast<double>(most);
}

}  // namespace planner
