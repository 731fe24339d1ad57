#pragma once
// What a rank moved: calls, payload, bytes put on the wire and time spent, per purpose, collective
// and algorithm. The measured half of the plan's `communication` entries. Value types;
// thread-compatible: each communicator owns one and is used by one thread.

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "sim/program/collective.hpp"
#include "sim/program/library_calls.hpp"

namespace exec {

// One entry of the plan's `communication` list. A parameter server's replies stand apart from the
// pushes of workers: their collective reads "parameter_server.server".
struct TrafficKey {
  program::Traffic what{};
  program::Collective collective{};
  program::Algorithm algorithm{};
  int group_size = 0;
  bool server = false;
  // Summed by the carrier's own collective, in an order of its own. Its wire bytes are not counted:
  // they are 0, or those of the plan's algorithm.
  bool library = false;
  friend auto operator<=>(const TrafficKey&, const TrafficKey&) = default;
};

// "ring", "direct", or "library": the plan's `algorithm`, unless the carrier chose its own.
std::string algorithm_name(const TrafficKey& key);
// "all_reduce", "parameter_server", "parameter_server.server": the plan's `collective`.
std::string collective_name(const TrafficKey& key);

struct TrafficTotals {
  std::int64_t calls = 0;   // a push with its pull is one; a recv is none (its send is)
  core::Bytes payload{0};   // S of sim/program/collective.hpp, padding included
  core::Bytes wire{0};      // counted where bytes leave this rank, without framing
  core::Seconds busy{0};    // wall time inside the calls, waiting included
  TrafficTotals& operator+=(const TrafficTotals& b);
};

struct CommunicatorStatistics {
  std::map<TrafficKey, TrafficTotals> entries;
  // The calls that a library reported for these entries; empty where it reports none.
  std::map<TrafficKey, std::vector<program::LibraryCalls>> library;
  bool emulated_links = false;  // true: the times are those of paced links, not of this machine

  // Adds another communicator of the same rank.
  void merge(const CommunicatorStatistics& other);
};

}  // namespace exec
