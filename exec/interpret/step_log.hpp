#pragma once
// StepLog: when each action of one rank's step ran, for traces. Each stream writes its own list, so
// there are no locks. Times are seconds of the steady clock.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/program/replay.hpp"

namespace exec {

struct LoggedAction {
  std::uint32_t action = 0;            // of the class
  std::uint32_t number = 0;            // of the call within the step
  program::Call call;
  double start = 0, finish = 0;
};

struct LoggedMemory {
  double time = 0;
  program::Term term{};
  core::Bytes change{};                // negative: freed
};

// A kernel, copy or fill, as the device itself recorded it.
struct LoggedKernel {
  program::Stream stream{};            // of the action that gave it
  std::uint32_t entry = 0;             // of that stream's list
  std::string name;
  double start = 0, finish = 0;
};

struct StepLog {
  program::StepOf which{};             // of its run
  program::TermBytes live{};           // as it began
  std::array<std::vector<LoggedAction>, program::kStreams> streams;
  std::vector<LoggedMemory> memory;
  // By start; empty: no device was asked.
  std::optional<std::vector<LoggedKernel>> kernels{};
};

}  // namespace exec
