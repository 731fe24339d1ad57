#include "planner/evaluate/played_time.hpp"

#include "sim/engine/engine.hpp"
#include "sim/program/traffic.hpp"

namespace planner {
namespace {

// Of a step, that transfers beside others must take before sharing links can matter.
constexpr double kLeastBeside = 0.02;
constexpr double kMostMessages = 2e4, kMostPlayed = 2e4;
constexpr int kMostRanks = 64;

bool served(const program::Program& program) {
  for (const program::RankClass& k : program.classes)
    for (const program::Transfer& t : k.transfers)
      if (t.algorithm == program::Algorithm::parameter_server) return true;
  return false;
}

// A collective of K members takes K - 1 messages of each, an all-reduce twice as many.
double messages(const program::Program& program) {
  double sum = 0;
  for (const program::TrafficEntry& t : program::traffic(program))
    sum += static_cast<double>(t.count) * 2 * (t.group_size - 1);
  return sum * program.mesh.ranks();
}

}  // namespace

std::optional<Time> played_time(const program::Program& program, const cost::Machine& machine,
                                const SweptTime& swept) {
  const bool contends = served(program) || swept.beside > swept.time.step * kLeastBeside;
  const int ranks = program.mesh.ranks();
  const bool flushes = program.classes.front().schedule.flushes;
  // Links that differ from kind to kind of GPU are not played message by message.
  if (machine.mixed || !flushes || !contends || ranks == 1 || ranks > kMostRanks ||
      messages(program) > kMostMessages)
    return std::nullopt;
  const engine::Scene scene(program, machine, {.unfold = true});
  if (scene.operations() > kMostPlayed) return std::nullopt;
  engine::EngineOptions options;
  options.flows = engine::FlowOptions{};
  options.machine = &machine;
  return time_of(engine::critical_terms(engine::run(scene, options)), machine);
}

}  // namespace planner
