#pragma once
// Outcome: what playing a scene says, from either evaluator: per actor and step, what its streams
// did, and from these the terms of a step. Value types; thread-compatible.
//
// A step begins when the rank's last one is done, all its streams joined (without flush: compute's
// own); ranks do not wait for one another at its end. period = what a step takes when steps
// follow one another, measured on the last of those played (without flush: on the last before those
// that drain), on the critical actor: of those whose step took longest the one with least bubble
// (the first of equals). On it
//   period = compute + exposed communication + bubble + optimizer
// with the idle time of its compute stream divided as follows: waiting for a party of a meeting
// that had not come yet is bubble (of the latest meeting on the way to what compute waited for);
// everything else, transfers in compute's own way included, is exposed communication.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/engine/scene.hpp"
#include "sim/engine/topology.hpp"
#include "sim/program/collective.hpp"

namespace engine {

struct Account {
  std::int64_t finish = 0;             // when the step is done on this actor
  std::int64_t compute = 0, optimizer = 0;  // kernels on the compute stream
  std::int64_t bubble = 0;
  std::int64_t communication = 0;      // transfers on all streams; a message counts at its sender
  std::int64_t kernels = 0;
  std::array<std::int64_t, program::kStreams> busy{};
  friend bool operator==(const Account&, const Account&) = default;
};

// When an operation was ready and when it began and ended; while which of the time before a party
// was missing last, on the way to its being ready.
struct Span {
  std::int64_t ready = 0, start = 0, end = 0;
  std::int64_t missing_from = 0, missing_to = 0;
};
// Of `from` to `to` the time that a party was missing.
inline std::int64_t missing_time(const Span& s, std::int64_t from, std::int64_t to) {
  const std::int64_t begin = from > s.missing_from ? from : s.missing_from;
  const std::int64_t end = to < s.missing_to ? to : s.missing_to;
  return end > begin ? end - begin : 0;
}
// compute_done: when the actor's compute stream had done what came before; moved on. counts:
// whether a transfer is this actor's to count.
void enter(Account& account, const Operation& op, const Span& span, bool counts,
           std::int64_t& compute_done);

// An operation as it happened.
struct Played {
  std::uint32_t actor = 0, operation = 0;
  std::int64_t micro_batch = 0;
  std::int64_t start = 0, finish = 0;
};

// What a critical path is made of: compute, optimizer, transfers by purpose, the rest.
inline constexpr std::size_t kTrafficKinds = program::kTraffics;
inline constexpr std::size_t kPathKinds = kTrafficKinds + 3;
std::string_view path_kind_name(std::size_t kind);
std::size_t path_kind(const Timetable& table, const Operation& op);
using PathTimes = std::array<std::int64_t, kPathKinds>;

struct Outcome {
  int steps = 1;
  int accounted = 0;                   // step
  std::vector<Account> accounts;       // by actor, then step
  std::uint64_t operations = 0;        // played
  // Of the longest chain of the first step, from rest: sums to makespan(). Where asked for.
  PathTimes critical_path{};
  // Under fidelity flows: bytes by rank, of all steps played.
  std::vector<double> wire_sent{}, wire_received{};
  // Likewise, bytes by link of the topology. Where ranks are folded over hashed routes, every link
  // has the bytes of the busiest link of its class (ways.hpp).
  std::vector<double> carried{};
  // Where a checkpoint is written behind the steps: by step, when the last rank had done it and how
  // much had arrived by then; and when all had arrived (-1: not before the end).
  std::vector<Written> written{};
  std::int64_t written_at = -1;

  const Account& account(std::size_t actor, int step) const {
    return accounts[actor * static_cast<std::size_t>(steps) + static_cast<std::size_t>(step)];
  }
  std::size_t actors() const { return accounts.size() / static_cast<std::size_t>(steps); }
  // When the first step, begun at rest, is done everywhere.
  std::int64_t makespan() const;
};

// The terms of the accounted step on the critical actor, picoseconds.
struct StepTerms {
  std::size_t actor = 0;
  std::int64_t period = 0, compute = 0, exposed_communication = 0, bubble = 0, optimizer = 0;
  std::int64_t communication = 0, kernels = 0;
  std::array<std::int64_t, program::kStreams> busy{};
};
StepTerms terms_of(const Outcome& outcome, std::size_t actor);
StepTerms critical_terms(const Outcome& outcome);

}  // namespace engine
