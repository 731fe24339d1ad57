#pragma once
// Goodput: the share of time that makes progress when parts fail now and then and everything since
// the last checkpoint is lost. Counts steps, not picoseconds: horizons are days.
//
// A cycle is `interval` steps and one checkpoint. Failures come at exponentially distributed times
// while the job runs, saves or restarts; none come while it waits for a node. After a failure the
// job waits until it has enough nodes, restarts, and goes on from the last complete checkpoint.
//
// Three ways to save:
//   sync    Steps stop until the checkpoint is written.
//   async   Steps stop while the state is copied to host memory; it is written behind them. The
//           checkpoint counts once it is written. The next copy waits for that.
//   memory  As async, but the copy behind the steps goes to the host of another node [gemini]. It
//           is lost where a failure takes two nodes or more, or the other node fails before the
//           restart is over. Then the job goes on from storage, to which one copy after another is
//           written behind.
//
// Pure; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace engine {

enum class Saving : std::uint8_t { sync, async, memory };
std::string_view name(Saving saving);

// The parts of one kind.
struct FailingParts {
  std::string kind;                    // "gpu"
  double parts = 1;                    // in the job
  core::Seconds between{};             // failures of one part, on average; > 0
  int nodes = 0;                       // that a failure takes away until they are repaired
  core::Seconds repair{};
};

struct FailureModel {
  std::vector<FailingParts> parts;     // REQUIRES: not empty
  core::Seconds step{};                // > 0
  Saving saving = Saving::sync;
  core::Seconds save{};                // for which steps stop, at each checkpoint
  core::Seconds behind{};              // then, until the checkpoint is complete; sync: 0
  core::Seconds restart{};             // until steps run again, when there are nodes enough
  std::optional<std::int64_t> spares{};  // nodes that stand by; empty: always enough
  std::int64_t nodes = 1;              // of the job
  // memory: to write one copy to storage, behind; and `restart` with the state from storage.
  core::Seconds stored{}, restart_stored{};

  core::Seconds between() const;       // failures of the job
};

// Expected share of time. REQUIRES of all: interval >= 1.
//
// Daly's, whose assumptions are sync saves and nodes that are always there [daly]:
//   E = M e^(R/M) (e^((k t + d) / M) - 1), goodput k t / E
// M mean time between failures of the job, t step, d save, R restart, k interval.
double daly_goodput(const FailureModel& model, std::int64_t interval);
// To first order in 1/M [rsc]: (1 - (R + (k t) / 2) / M) / (1 + d / (k t)), at least 0.
double first_order_goodput(const FailureModel& model, std::int64_t interval);
// What Daly leaves out, too. Checkpoints written behind: with b = `behind`, checkpoints complete
// c = d + max(k t, b) apart, and the first one after a restart k t + d + b after it:
//   E = (1 - e^(-c/M)) e^((k t + d + b) / M) M e^(R/M)
// which is Daly's where b = 0: by the chain "complete checkpoint -> complete checkpoint | failure".
// Waiting: while the job runs, the number of nodes away is that of Erlang's loss system with the
// load a = nodes that failures take per second of running x repair [erlang]. The mean wait W
// follows from the order in which they return, and goodput is multiplied by M / (M + W). Derived;
// exact where failures take one node each, an estimate where some take several at once.
// Copies that are lost in memory: to first order, a term for what storage is behind.
double expected_goodput(const FailureModel& model, std::int64_t interval);

// Average time for which a failure makes the job wait for nodes.
core::Seconds expected_wait(const FailureModel& model);

// Steps between checkpoints: sqrt(2 d M) / t [young]; Daly's higher order; and by search, with the
// greatest expected_goodput. O(log).
std::int64_t young_interval(const FailureModel& model);
std::int64_t daly_interval(const FailureModel& model);
std::int64_t best_interval(const FailureModel& model);

// Of `memory`: copies that go to storage are so many checkpoints apart, for it takes `stored` to
// write one.
std::int64_t checkpoints_per_stored(const FailureModel& model, std::int64_t interval);

struct GoodputRun {
  double goodput = 0;                  // time of steps kept / all time
  core::Seconds all{};                 // the horizon, to the end of the cycle that it ends in
  std::int64_t steps = 0;              // kept
  std::int64_t failures = 0, saves = 0;
  std::int64_t lost_steps = 0;         // done, and done again
  std::int64_t memory_lost = 0;        // failures after which the state came from storage
  // Shares of all time: goodput + saving + repeated + restarting + waiting = 1.
  double saving = 0, repeated = 0, restarting = 0, waiting = 0;
  std::vector<std::int64_t> of_kind;   // failures, by FailureModel::parts
};
// Plays whole cycles until `horizon` is over. The same seed gives the same run.
// O(failures x log(nodes away)).
GoodputRun play_failures(const FailureModel& model, std::int64_t interval, core::Seconds horizon,
                         std::uint64_t seed);

}  // namespace engine
