#pragma once
// Traffic: what each rank puts on the wire in one step, by purpose, counted from the Program's
// actions with the volumes of collective.hpp. Routine totals are multiplied by how often the
// schedule runs them, so the cost is O(calls of the routines x their actions) per class, plus one
// pass over the entries per index in a group only where an algorithm treats indices differently
// (tree, broadcast); ring and naive_all_reduce do not. Pure; thread-safe.
//
// Conventions (design, section 10): count = calls issued, payload = S of collective.hpp summed over
// them, wire = bytes that the rank sends. Entries with no wire bytes are left out, so a send is
// counted at the sender alone and a broadcast at its root.
// A push (with its pull) enters as "parameter_server", a server's reply to all workers as
// "parameter_server.server": one call per span, payload = the whole padded span, wire = what the
// rank sends to others. `what` and wire type are the transfer's.

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/units.hpp"
#include "sim/program/collective.hpp"
#include "sim/program/program.hpp"

namespace program {

// Calls of one size in groups of one kind.
struct CallSize {
  Group group{};
  std::int64_t elements = 0;           // of one call, without the padding of an algorithm
  core::DType type{};
  std::int64_t count = 0;
};

struct TrafficEntry {
  Traffic what{};
  std::string_view collective;         // "all_reduce", ..., "parameter_server.server"
  Algorithm algorithm{};
  int group_size = 1;
  int busiest_rank = 0;                // most wire bytes in this entry, lowest id on ties
  std::int64_t count = 0;              // of that rank, as are payload and wire
  core::Bytes payload{};
  core::Bytes wire{};
  std::vector<CallSize> sizes;         // what count and payload sum; by group, then by elements
};

// What tells entries apart: what for, which collective, how, among how many ranks.
using EntryKey = std::tuple<Traffic, std::string_view, Algorithm, int>;
// Of the entry that an action counts in; nullopt: in none, as receives, pulls and folds, the other
// side of what a send, reply or push already counts.
std::optional<EntryKey> entry_of(const Program& program, const RankClass& rank_class,
                                 const Action& action);

// Elements that travel for a view in a call, padding included: a chunk or shard has shard_elements
// on every rank, also where the stored part is shorter (resolve()).
std::int64_t view_elements(const RankClass& rank_class, const View& view, const Call& call);

// The vector that a communicating action is about in a call: its span for the server actions, else
// its last view, which of {shard, full} is the gathered one.
std::int64_t transfer_elements(const RankClass& rank_class, const Action& action, const Call& call);

// Entries of the program, by (what, collective, algorithm, group size), each of its busiest rank.
std::vector<TrafficEntry> traffic(const Program& program);

// Entries of one rank, in the same order.
std::vector<TrafficEntry> rank_traffic(const Program& program, int rank);

}  // namespace program
