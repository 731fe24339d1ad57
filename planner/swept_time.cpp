#include "planner/swept_time.hpp"

#include <algorithm>

#include "sim/engine/sweep.hpp"

namespace planner {

static constexpr double kMostOperations = 1e5;  // a step's; some 30 M a second are swept

static core::Seconds seconds(std::int64_t picoseconds) {
  return core::to_seconds(core::Picoseconds(picoseconds));
}

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

// What a message takes counts at its sender; what streams other than compute do not do is done in
// compute's own way.
static core::Seconds beside_the_busiest(const engine::StepTerms& t) {
  std::int64_t elsewhere = 0, most = 0;
  for (const program::Stream stream :
       {program::Stream::gradient, program::Stream::parameter, program::Stream::send}) {
    const std::int64_t busy = t.busy[static_cast<std::size_t>(stream)];
    elsewhere += busy;
    most = std::max(most, busy);
  }
  most = std::max(most, t.communication - elsewhere);
  return seconds(std::max(t.communication, elsewhere) - most);
}

std::optional<SweptTime> swept_time(const program::Program& program,
                                    const cost::Machine& machine) {
  const engine::Scene scene(program, machine);
  if (scene.operations() > kMostOperations) return std::nullopt;
  // One actor waits for nobody, and its streams join: every step is the first.
  const int steps = scene.actors().size() == 1 ? 1 : 2;
  const engine::StepTerms t = engine::critical_terms(engine::sweep(scene, {.steps = steps}));
  return SweptTime{time_of(t, machine), beside_the_busiest(t)};
}

}  // namespace planner
