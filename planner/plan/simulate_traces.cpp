#include "planner/plan/simulate_traces.hpp"

#include "planner/evaluate/candidate_json.hpp"
#include "planner/evaluate/swept_time.hpp"
#include "sim/cost/machine.hpp"

namespace planner {

core::Result<TraceSimulation> simulate_traces(const std::vector<engine::ChakraTrace>& traces,
                                              const std::vector<engine::ChakraGroup>& groups,
                                              const std::optional<hw_profiles::Profile>& machine) {
  std::optional<cost::Machine> costs;
  if (machine) costs = cost::make_machine(*machine, {});
  const auto tasks = engine::match_chakra(traces, groups, costs ? &*costs : nullptr);
  if (!tasks.ok()) return tasks.problems();
  core::Result<engine::ChakraOutcome> played = engine::play_chakra(traces, *tasks);
  if (!played.ok()) return played.problems();
  TraceSimulation s;
  s.outcome = std::move(played).value();
  if (machine) s.gpu = machine->gpu.id;
  s.ranks = static_cast<std::int64_t>(traces.size());
  const engine::ChakraOutcome& o = s.outcome;
  s.time.step = seconds(o.period);
  s.time.compute = seconds(o.compute);
  s.time.exposed_communication = seconds(o.exposed_communication);
  s.time.bubble = seconds(o.waiting);
  s.time.communication = seconds(o.communication);
  for (const engine::ChakraTraffic& t : tasks->traffic)
    s.communication.push_back({t.what, t.collective, t.algorithm, t.group_size, t.count,
                               core::Bytes(t.payload), core::Bytes(t.wire),
                               core::Seconds(t.seconds)});
  return s;
}

std::string to_json_text(const TraceSimulation& s) {
  using core::Json;
  Json time = to_json(s.time);
  time.set("optimizer", nullptr);
  Json streams = Json::array();
  for (const engine::ChakraStream& stream : s.outcome.streams) {
    const std::int64_t period = s.outcome.periods[static_cast<std::size_t>(stream.rank)];
    streams.push_back(Json::object({{"rank", stream.rank},
                                    {"stream", stream.name},
                                    {"busy", seconds(stream.busy).value()},
                                    {"idle", seconds(period - stream.busy).value()}}));
  }
  return core::dump(Json::object({{"schema", "simulate/1"},
                                  {"candidate", nullptr},
                                  {"traces", Json::object({{"from", s.from},
                                                           {"nodes", s.outcome.nodes},
                                                           {"machine", s.gpu}})},
                                  {"evaluator", "simulated"},
                                  {"ranks", s.ranks},
                                  {"ranks_played", s.ranks},
                                  {"critical_rank", s.outcome.critical_rank},
                                  {"time", std::move(time)},
                                  {"first_step", seconds(s.outcome.makespan).value()},
                                  {"memory", nullptr},
                                  {"communication", to_json(s.communication)},
                                  {"streams", std::move(streams)},
                                  {"critical_path", Json::array()}})) +
         '\n';
}

}  // namespace planner
