#pragma once
// Simulate, without a plan: execution traces of all ranks (sim/chakra/read.hpp) as recorded,
// or with their transfers on another machine; and the file simulate/1 of that. Pure.
//
// Traces do not tell the optimizer from other computation (null), nor why a rank waits: bubble is
// the time in which it neither computes nor communicates. memory is not known.

#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "planner/evaluate/candidate.hpp"
#include "sim/chakra/play.hpp"

namespace planner {

struct TraceSimulation {
  std::string from;                    // as named
  std::optional<std::string> gpu;      // whose transfers; empty: as recorded
  std::int64_t ranks = 0;
  Time time;                           // of the critical rank; optimizer within compute
  engine::ChakraOutcome outcome;
  std::vector<CommunicationEntry> communication;
};

// traces: by rank. machine: empty: durations as recorded. Problems: engine::match_chakra's and
// engine::play_chakra's.
core::Result<TraceSimulation> simulate_traces(const std::vector<engine::ChakraTrace>& traces,
                                              const std::vector<engine::ChakraGroup>& groups,
                                              const std::optional<hw_profiles::Profile>& machine);

std::string to_json_text(const TraceSimulation& simulation);

}  // namespace planner
