#pragma once
// How often the parts of a cluster fail, as a file failures/1 states it. The shipped files are in
// failures/: what operators of large clusters published. Every number is written with its source;
// a source that begins with "assumed" says that nobody published the number. Value types; reading
// is thread-safe.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"
#include "hw_profiles/profile.hpp"

namespace hw_profiles {

// What a job counts one part of for each:
//   gpu       GPU; the whole node is taken away for repair
//   node      node: its processors, memory, disks, power, maintenance
//   network   node: its NICs and cables, and its share of the switches
//   switch    so many nodes; all of them are taken away
//   software  job; no node is taken away
enum class Failing : std::uint8_t { gpu, node, network, a_switch, software };
inline constexpr std::array kFailing{Failing::gpu, Failing::node, Failing::network,
                                     Failing::a_switch, Failing::software};
std::string_view name(Failing what);

struct FailureRate {
  Failing what{};
  core::Seconds between{};             // failures of one part, on average; > 0
  std::int64_t nodes = 1;              // of a switch: that are attached to it
  std::optional<core::Seconds> repair{};  // of what was taken away; 0: it is back at once
};

struct FailureRates {
  std::string id, about;
  std::vector<FailureRate> rates;      // not empty; each kind once
  std::vector<Sourced> sources;
};

std::vector<std::string> failure_names();
// A shipped name, or a path (it has a slash or ends in .json).
core::Result<FailureRates> find_failures(const std::string& wanted);
core::Result<FailureRates> failures_from_json_text(std::string_view text, std::string_view where);

}  // namespace hw_profiles
