#pragma once
// Energy and money of a run: power x time and price x time. Pure functions; thread-safe.
//
// Power is a stated model, not a measurement: a GPU draws kIdleShare of its board power while it
// waits and all of it while it computes; what lies between follows the share of the step spent
// computing. Hosts, network and cooling are left out. What a profile does not state stays empty.

#include <cstdint>
#include <optional>

#include "core/units.hpp"
#include "hw_profiles/profile.hpp"

namespace cost {

using Joules = core::Quantity<struct JoulesTag, double>;
using Dollars = core::Quantity<struct DollarsTag, double>;

// Unverified: idle accelerators are commonly seen at 10-15 % of their board power.
inline constexpr double kIdleShare = 0.12;

// One GPU over `time`, of which `busy` is spent computing. REQUIRES: 0 <= busy <= time.
std::optional<Joules> energy(const hw_profiles::Gpu& gpu, core::Seconds time, core::Seconds busy);

// The rent of one GPU for `time`.
std::optional<Dollars> rent(const hw_profiles::Gpu& gpu, core::Seconds time);

// What training on `tokens` tokens takes.
struct Training {
  std::int64_t tokens = 0;
  core::Seconds seconds{};
  double gpu_hours = 0;
  std::optional<Dollars> cost;    // empty: the profile has no price
  std::optional<Joules> energy;   // empty: the profile has no board power

  friend bool operator==(const Training&, const Training&) = default;
};

// A step takes `step`, of which `busy` is computing, and consumes step_tokens: tokens / step_tokens
// steps, the last one in part. REQUIRES: step_tokens >= 1, step > 0.
Training training(const hw_profiles::Gpu& gpu, std::int64_t gpus, std::int64_t tokens,
                  std::int64_t step_tokens, core::Seconds step, core::Seconds busy);

}  // namespace cost
