#include "planner/swept_time.hpp"

#include "sim/engine/sweep.hpp"

namespace planner {

static constexpr double kMostOperations = 1e5;  // a step's; some 30 M a second are swept

Time time_of(const engine::StepTerms& t, const cost::Machine& machine) {
  const auto seconds = [](std::int64_t ps) { return core::to_seconds(core::Picoseconds(ps)); };
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

std::optional<Time> swept_time(const program::Program& program, const cost::Machine& machine) {
  const engine::Scene scene(program, machine);
  if (scene.operations() > kMostOperations) return std::nullopt;
  // One actor waits for nobody, and its streams join: every step is the first.
  const int steps = scene.actors().size() == 1 ? 1 : 2;
  return time_of(engine::critical_terms(engine::sweep(scene, {.steps = steps})), machine);
}

}  // namespace planner
