#include "reports/logs/execution_trace.hpp"

#include <vector>

#include "sim/chakra/play.hpp"
#include "sim/chakra/schema.hpp"

namespace reports::logs {
namespace {

constexpr double kPicosecond = 1e-12;

core::Seconds seconds(std::int64_t picoseconds) {
  return core::Seconds(static_cast<double>(picoseconds) * kPicosecond);
}

// Of a rank alone nothing meets: what others have a part in takes what was recorded here.
engine::ChakraTrace alone(engine::ChakraTrace trace) {
  for (engine::ChakraNode& n : trace.nodes) {
    if (n.type < engine::chakra::kSend) continue;
    // A receive may say its time at the send.
    if (n.type == engine::chakra::kReceive && n.duration == 0) n.size = 0;
    n.type = engine::chakra::kComp;
  }
  return trace;
}

}  // namespace

bool is_execution_trace(std::string_view name) { return name.ends_with(".et"); }

core::Result<TrainingLog> read_execution_trace(std::string_view bytes, const std::string& name) {
  auto read = engine::read_chakra(name, bytes, 0);
  if (!read.ok()) return read.problems();
  const auto tasks = engine::match_chakra({alone(*read)}, {}, nullptr);
  if (!tasks.ok()) return tasks.problems();
  const auto outcome = engine::play_chakra({*read}, *tasks);
  if (!outcome.ok()) return outcome.problems();
  if (outcome->period == 0)
    return core::Problem{name, "nodes with durations", "none",
                         "planner simulate plays traces of all ranks that record none"};
  TrainingLog log;
  log.format = kExecutionTrace;
  log.source = "MLCommons Chakra, schema 0.0.4: duration_micros of nodes";
  log.rate = Rate::seconds;
  log.steps = {{0, seconds(outcome->period).value()}};
  log.device = {seconds(outcome->compute), seconds(outcome->communication),
                seconds(outcome->exposed_communication)};
  log.notes = {"Its nodes are played in the order of their dependencies, each as long as was "
               "recorded, so time between nodes that nothing records is not counted. Times are "
               "those of one rank; exposed is what a rank waits for others, too: the bubble of a "
               "pipeline is predicted with it, and the optimizer with computation."};
  return log;
}

}  // namespace reports::logs
