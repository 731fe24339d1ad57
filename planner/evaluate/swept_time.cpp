#include "planner/evaluate/swept_time.hpp"

#include <algorithm>

#include "sim/engine/sweep.hpp"

namespace planner {

static constexpr double kMostSwept = 1e5;  // a step's; some 30 M a second are swept

Time time_of(const engine::StepTerms& t, const cost::Machine& machine) {
  Time time;
  time.compute = seconds(t.compute);
  time.exposed_communication = seconds(t.exposed_communication);
  time.bubble = seconds(t.bubble);
  time.optimizer = seconds(t.optimizer);
  time.step = time.compute + time.exposed_communication + time.bubble + time.optimizer;
  time.communication = seconds(t.communication);
  const std::int64_t launches = t.kernels * core::to_picoseconds(machine.launch).value();
  time.launch_bound = 2 * launches > t.compute + t.optimizer;
  return time;
}

// A message counts at its sender; what no other stream does is done in compute's own way.
static core::Seconds beside_the_busiest(const engine::StepTerms& t) {
  using program::Stream;
  std::int64_t in_its_way = t.communication, most = 0;
  for (int s = 0; s < program::kStreams; ++s) {
    const auto stream = static_cast<Stream>(s);
    if (stream == Stream::compute || program::receives(stream)) continue;
    const std::int64_t busy = t.busy[static_cast<std::size_t>(s)];
    in_its_way -= busy;
    most = std::max(most, busy);
  }
  return seconds(t.communication - std::max(most, in_its_way));
}

std::optional<SweptTime> swept_time(const program::Program& program,
                                    const cost::Machine& machine) {
  const engine::Scene scene(program, machine);
  if (scene.operations() * scene.steps_of(1) > kMostSwept) return std::nullopt;
  // One actor waits for nobody, and its streams join: every step is the first.
  const int steps = scene.actors().size() == 1 ? 1 : 2;
  const engine::StepTerms t = engine::critical_terms(engine::sweep(scene, {.steps = steps}));
  return SweptTime{time_of(t, machine), beside_the_busiest(t)};
}

}  // namespace planner
