#pragma once
// What is recommended among strategies that fit (docs/decisions/0011):
//
//   1. risk: at most Request::max_risk of running out of memory; where nothing is so safe, the cap
//      is doubled until something is;
//   2. speed: the least step, as counted_step counts it;
//   3. simplicity: among those within Request::simpler_within of the fastest, and no riskier than
//      it by what is worth telling (kHardlyRisky), the simplest.
//
// Pure; thread-safe.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/evaluate/candidate.hpp"
#include "planner/search/search.hpp"

namespace planner {

// A bound of the closed form is at most so many times what is replayed.
inline constexpr double kBoundSlack = 1.02;

// What a replay holds beside what lives is at most this many times that, by what replays show.
inline constexpr double kAllocatorSlack = 1.03;

// Classes of risk on one machine, of predictions that are as far off (Accuracy::memory_error):
// class 0 is at most max_risk, each next one doubles the cap (from at least a percent), and the
// last one is everything that fits.
class RiskClasses {
 public:
  RiskClasses(core::Bytes usable, double max_risk, MemoryError error);
  int of(core::Bytes device) const { return first_within(most_, device); }
  // The least that a bound (Entry::device) may come to when it is replayed.
  int of_bound(core::Bytes bound) const { return first_within(most_bound_, bound); }
  // The class of a probability of running out of memory.
  static int of_probability(double risk, double max_risk);
  // The most bytes of class 0.
  core::Bytes safe() const { return most_.front(); }
  double probability(core::Bytes device) const {
    return out_of_memory({static_cast<double>(device.value()),
                          static_cast<double>(usable_.value()), error_});
  }

 private:
  static constexpr int kCaps = 5;
  static double next_cap(double cap);
  using Limits = std::array<core::Bytes, kCaps>;
  static int first_within(const Limits& limits, core::Bytes bytes) {
    int k = 0;
    while (k < kCaps && bytes > limits[static_cast<std::size_t>(k)]) ++k;
    return k;
  }
  core::Bytes usable_;
  MemoryError error_;
  Limits most_{}, most_bound_{};
};

// What a choice counts a step as: expected_step (planner/evaluate/accuracy.hpp), longer by what
// parts that depend on more of the machine must gain: each of what hosts keep, and samples cut
// short (docs/decisions/0011). out_of_memory: a probability.
core::Seconds counted_step(const Job& job, const Strategy& strategy, core::Seconds step,
                           double out_of_memory);

// What a strategy must gain over another before it is recommended, as a factor of the step, because
// it depends on more of the machine or on rarer software; nullopt: nothing.
struct Margin {
  double factor = 1;
  std::string_view why;
};
std::optional<Margin> margin_over(const Job& job, const Strategy& strategy, const Strategy& other);

// How unusual a strategy is, compared from the first number on, in the order that decision 0011
// states: parallel dimensions beside data, offload, context ranks of short samples, virtual stages,
// uneven stages, schedule, recomputation, sharding, settings off their defaults.
using Complexity = std::array<int, 9>;
inline constexpr std::size_t kOfSharding = 7;  // place of the sharding in Complexity
Complexity complexity(const Strategy& strategy, std::int64_t seq_len);

// What weights that every layer gathers (zero3) must gain, as a share of the step, over a strategy
// that is the same but for less sharding (docs/decisions/0011).
inline constexpr double kGatheringGains = 0.05;
// Whether these are two such strategies, up to micro-batches and settings.
bool shards_less(const Strategy& less, const Strategy& more, std::int64_t seq_len);

// Where candidates stand; less is better.
struct Rank {
  int risk = 0;                        // RiskClasses; 0 for every one under Objective::memory
  double first = 0, second = 0;        // counted step and device bytes; under memory the reverse
  friend auto operator<=>(const Rank&, const Rank&) = default;
};
Rank rank_of(const Job& job, const Candidate& candidate, const Request& request);

// Puts candidates in the order of their ranks, the recommended one before all; says why that one.
// Under Objective::memory simplicity decides nothing.
Because order_by_preference(std::vector<Candidate>& candidates, const Job& job,
                         const Request& request);

// Whether its stages' layer counts differ by more than the division of all layers makes them.
bool divides_unevenly(const Strategy& strategy);

// What is unusual about a strategy, part by part, as "offload=optimizer"; each must have earned its
// place (Plan::earned).
struct UnusualPart {
  std::string text;
  bool (*has)(const Strategy& strategy);
};
std::vector<UnusualPart> unusual_parts(const Strategy& strategy, std::int64_t seq_len);

}  // namespace planner
