#pragma once
// Candidate: one strategy with everything predicted of it; CANDIDATE of the plan file (design,
// section 10), field for field. Value type.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/program/library_calls.hpp"
#include "sim/program/program.hpp"

namespace planner {

// Bytes of the six terms of one rank at the first instant of its live peak, and what the device
// needs beside. live = sum of terms; device = reserved + workspace + context + communicators.
struct MemoryTerms {
  std::array<core::Bytes, program::kTerms> terms{};
  std::array<core::Bytes, program::kTerms> peaks{};  // each tag's own peak
  core::Bytes live{}, reserved{}, workspace{}, context{}, communicators{}, device{};
  core::Bytes host{};                  // offloaded, in the memory of the rank's host
  // What the allocator holds beyond `reserved`, for it was freed by a host that runs ahead and is
  // yet to be read by a collective (stage::rows_waiting).
  core::Bytes waiting{};
};
struct StageMemory {
  int stage = 0;
  MemoryTerms memory;                  // of the stage's rank of greatest device
};
struct Memory {
  int rank = 0;                        // of greatest device, lowest id on ties
  MemoryTerms worst;
  core::Bytes usable{};
  std::vector<StageMemory> stages;
  // `reserved` is an estimate for some rank (program::Replay). The chosen plan's is exact.
  bool estimated = false;
};

// Steady-state period and its parts on the critical rank:
// step = compute + exposed_communication + bubble + optimizer.
struct Time {
  core::Seconds step{}, compute{}, exposed_communication{}, bubble{}, optimizer{}, communication{};
  bool launch_bound = false;
};

// One entry of communication: totals of one step of the busiest rank.
struct CommunicationEntry {
  std::string what, collective, algorithm;
  int group_size = 1;
  std::int64_t count = 0;
  core::Bytes payload{}, wire_per_rank{};
  core::Seconds seconds{};
  // What NCCL is assumed to run, whose time `seconds` is; empty: `seconds` has another model, or
  // NCCL has no such call. `algorithm` says whose wire bytes are counted.
  std::vector<program::LibraryCalls> library = {};
};

struct Throughput {
  double samples_per_second = 0, tokens_per_second = 0, tokens_per_second_per_gpu = 0;
  double model_tflops_per_gpu = 0, mfu = 0;
};

// Intervals that hold what accuracy().coverage says of runs that no constant was fitted to
// (planner/evaluate/accuracy.hpp).
struct Uncertainty {
  core::Seconds step_low{}, step_high{};
  core::Bytes device_low{}, device_high{};
  double out_of_memory = 0;            // probability that it does not fit
  std::int64_t calibration_runs = 0;   // of this site, that the step is predicted with
  // Runs of other sites with which predictions like this one were compared (planner/evaluate/
  // regime.hpp); none where none of this framework was.
  std::int64_t similar_runs = 0;
};

struct Candidate {
  Strategy strategy;                   // resolved
  Memory memory;
  Time time;
  std::vector<CommunicationEntry> communication;
  Throughput throughput;
  Uncertainty uncertainty;
  std::string evaluator = "closed_form";
};

// A probability of running out of memory below this is not worth a word.
inline constexpr double kHardlyRisky = 0.01;

// Whether its probability of running out of memory is at most the cap.
// Less cannot be told from none: a cap of 0 is this.
inline constexpr double kNoRisk = 1e-4;
inline bool within_risk(const Candidate& c, double max_risk) {
  return c.uncertainty.out_of_memory <= std::max(max_risk, kNoRisk);
}

}  // namespace planner
