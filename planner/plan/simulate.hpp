#pragma once
// Simulate: a planned candidate played before any GPU does (sim/engine), and the file simulate/1
// (design, section 10). Pure but for the sink of execution traces: the same plan, options and seed
// give the same bytes.
//
// time is that of the critical rank in the steady state (engine/outcome.hpp); streams and critical
// path are of the first step, begun at rest.
//
// Where stragglers, weak links or jitter are asked for, simulate/1 has `healthy`: the `time` of the
// step without them; `slowdown`: step / healthy step - 1; and `growth`: the seconds by which each
// term of the step is longer (negative: shorter), which sum to step - healthy step. With failures,
// goodput.step is the average time from one kept step to the next. Where a trace is wanted, `trace`
// says its format, its bytes, which ranks and which micro-batches (first and last of each run) it
// shows, and whether these are all. With flows, `link_loads` has the load of each kind of link
// (`tiers`), of each single link where these are at most 4,096 (`links`), what the links join
// (`layers`), and whether loads are those of the busiest among alike links (`worst_of_alike`;
// `mean` is then null).

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/fabric.hpp"
#include "planner/evaluate/variation.hpp"
#include "planner/plan/goodput.hpp"
#include "planner/plan/plan.hpp"
#include "planner/plan/scaling.hpp"
#include "sim/chakra/write.hpp"
#include "sim/engine/exchanges.hpp"
#include "sim/engine/scene.hpp"
#include "sim/engine/trace.hpp"

namespace planner {

struct SimulateOptions {
  int candidate = 0;                   // 0: the chosen; N: the N-th alternative
  bool unfold = false;
  std::vector<engine::Straggler> stragglers{};
  double jitter = 0;
  std::uint64_t seed = 1;
  // Transfers as messages that share the machine's links, instead of each in its own time.
  std::optional<engine::FlowOptions> flows{};
  // With flows: the network between nodes, in place of the profile's single one per node.
  std::optional<hw_profiles::Fabric> fabric{};
  // Ranks and links that are slow at random: the step is played many times, with these and the
  // stragglers and the jitter above. 0 steps: as many as are worth it.
  std::vector<RandomSlow> random{};
  std::int64_t sample_steps = 0;
  int threads = 0;                     // that play steps, and parts of a large one; 0: all
  std::function<void(std::string_view)> progress{};
  std::vector<std::int64_t> scale{};   // data-parallel copies to ask about
  std::optional<FailureOptions> failures{};
  std::optional<CheckpointOptions> checkpoint{};  // with flows
  std::optional<engine::TraceOptions> trace{};  // wanted
  // Execution traces wanted: each goes to the sink, which keeps or refuses it.
  std::optional<engine::ChakraOptions> chakra{};
  engine::ChakraSink chakra_sink{};
};

// Of a rank played, which may stand for others.
struct StreamUse {
  int rank = 0;
  program::Stream stream{};
  core::Seconds busy{}, idle{};
};
struct PathPart {
  std::string kind;                    // compute, optimizer, a `what` of communication, other
  core::Seconds seconds{};
};
// When the rank of greatest device first holds its live peak, from the start of the first step.
struct PeakInstant {
  int rank = 0;
  core::Bytes live{};
  core::Seconds time{};
  std::string block;                   // "layer.forward", "" before the step
  std::int64_t layer = 0, micro_batch = 0;
};

// How busy links are over a step, as a share of what they can carry in it.
struct LinkLoad {
  std::string name;
  double bytes = 0, share = 0;
};
// Of the links that are alike in their place.
struct TierLoad {
  std::string tier;                    // "NIC out"
  core::BytesPerSecond rate;           // of the first
  std::int64_t links = 0;
  double mean = 0, most = 0;
  std::string busiest{};               // the first of the busiest
  // The busiest share among every `links_per_cell` links that follow one another.
  std::vector<double> cells{};
  std::int64_t links_per_cell = 1;
  std::vector<LinkLoad> worst{};       // the busiest few, busiest first
};
struct LinkLoads {
  std::vector<TierLoad> tiers;
  // What the links join, from the GPUs upward, and how many there are.
  std::vector<std::pair<std::string, int>> layers;
  std::vector<LinkLoad> links;         // where there are few enough to list
  // Ranks were folded over hashed routes: every link shows the load of the busiest link of its
  // class (engine/ways.hpp), so `mean` is not that of the links.
  bool worst_of_alike = false;
};

struct Simulation {
  int candidate = 0;
  Strategy strategy;                   // resolved
  std::string evaluator = "simulated";
  std::int64_t ranks = 0, ranks_played = 0;
  std::uint64_t operations = 0;        // played
  core::Seconds planned_step{};        // as the plan predicts it
  int critical_rank = 0;
  Time time;
  // The step without the stragglers, weak links and jitter of the options, in the terms of its own
  // critical rank. Empty where the options have none of them.
  std::optional<Time> healthy;
  core::Seconds first_step{};          // from rest until every rank is done
  Memory memory;
  PeakInstant peak;
  std::vector<CommunicationEntry> communication;
  std::vector<StreamUse> streams;
  std::vector<PathPart> critical_path;  // sums to first_step
  std::vector<ScalePoint> scaling;      // where asked for
  std::optional<Variation> variation;   // where asked for: steps that vary at random
  std::optional<Goodput> goodput;       // where asked for, of the mean of these
  std::vector<double> wire_sent;        // where links are shared: bytes by rank, of one step
  LinkLoads loads;                      // likewise
  std::optional<CheckpointTraffic> checkpoint;  // where asked for
  SimulateOptions options;
  program::Trace trace;                // where wanted
  engine::ChakraGroups chakra_groups;  // likewise, of execution traces
};

// Problems: a candidate that is not there, a strategy that cannot be expressed, a straggler that is
// no rank, a step of more operations than can be played.
core::Result<Simulation> simulate(const Plan& plan, const SimulateOptions& options);

std::string to_json_text(const Simulation& simulation);

}  // namespace planner
