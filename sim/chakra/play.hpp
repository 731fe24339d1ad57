#pragma once
// Execution traces of all ranks, played in time: what `planner simulate` says of steps that others
// recorded, or that we wrote ourselves.
//
// A node is ready when its dependencies have ended. A collective or message starts when all its
// parties are ready, and ends on each after its duration there. A stream of a rank (the attribute
// `stream`; else one for each of computation, host, memory, collectives, sends and receives) does
// one thing at a time, first come first served, of equals the lower rank's and earlier node; what
// needs several streams waits for all, and holds none meanwhile, so streams never lock each other.
// Buffered messages (parameter servers) share their wire by their duration and hold no stream.
// A message that records no time on either side is eager, as in ASTRA-sim: its send takes its turn
// on the sender's stream without waiting for the receive, which ends when the message has come.
//
// Steps follow one another as the engine's do: a rank's begins when its last one is done. For files
// that chakra.hpp wrote, period and makespan equal the engine's to the picosecond.
// O((nodes + dependencies) log nodes) a step. Deterministic; pure; thread-safe.

#include <string>
#include <vector>

#include "core/result.hpp"
#include "sim/chakra/match.hpp"

namespace engine {

struct ChakraStream {
  int rank = 0;
  std::string name;
  std::int64_t busy = 0;               // picoseconds of the last step
};

struct ChakraOutcome {
  std::int64_t makespan = 0;           // of the first step, from rest; picoseconds
  // Of the last step on the rank where it takes longest (the lowest of equals).
  int critical_rank = 0;
  std::int64_t period = 0;             // = compute + communication alone + neither
  std::int64_t compute = 0, exposed_communication = 0, waiting = 0, communication = 0;
  std::vector<ChakraStream> streams;   // of all ranks, where anything was done
  std::vector<std::int64_t> periods;   // by rank
  std::uint64_t nodes = 0;             // of all files
};

// Two steps. Problems: nodes that never become ready (a circle of dependencies, or transfers in
// different orders on different ranks).
core::Result<ChakraOutcome> play_chakra(const std::vector<ChakraTrace>& traces,
                                        const ChakraTasks& tasks);

}  // namespace engine
