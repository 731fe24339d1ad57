#include "planner/plan/checkpoint_traffic.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "core/check.hpp"
#include "planner/plan/flow_stage.hpp"
#include "planner/plan/state_bytes.hpp"
#include "sim/engine/engine.hpp"

namespace planner {
namespace {

core::Seconds seconds(double picoseconds) { return core::Seconds(picoseconds * 1e-12); }

class CheckpointPlay {
 public:
  CheckpointPlay(const program::Program& program, const cost::Machine& machine,
                 const SimulateOptions& options)
      : machine_(machine), options_(options), bytes_(state_bytes(program)),
        writes_{bytes_.by_rank, options.checkpoint->to_nodes},
        stage_(program, machine, options, &writes_),
        scene_(stage_.scene(program, machine, options)) {}

  CheckpointTraffic run() const {
    CheckpointTraffic t;
    t.to_nodes = writes_.to_nodes;
    t.storage = t.to_nodes ? std::nullopt : options_.checkpoint->storage;
    t.bytes = bytes_.all;
    t.alone = alone();
    const engine::Outcome with = played(true), without = played(false);
    const double later = end_of(with, kSteps - 1) - end_of(without, kSteps - 1);
    if (with.written_at >= 0) {
      t.behind = seconds(static_cast<double>(with.written_at));
      t.delay = seconds(later);
      return t;
    }
    // The rest goes on as in the last step.
    const double step = end_of(with, kSteps - 1) - end_of(with, kSteps - 2);
    const double usual = end_of(without, kSteps - 1) - end_of(without, kSteps - 2);
    const double all = written_in_all(), last = with.written[kSteps - 1].bytes;
    const double in_a_step = last - with.written[kSteps - 2].bytes;
    PLANNER_CHECK(in_a_step > 0, "a checkpoint that makes no way");
    const double more = (all - last) / in_a_step;
    t.behind = seconds(end_of(with, kSteps - 1) + more * step);
    t.delay = seconds(later + more * (step - usual));
    t.step = seconds(step);
    return t;
  }

 private:
  static constexpr int kSteps = 2;

  engine::FlowOptions flows(bool writes) const {
    engine::FlowOptions flows = *stage_.flows(options_);
    if (!writes) flows.writes = nullptr;
    return flows;
  }

  engine::Outcome played(bool writes) const {
    engine::EngineOptions o;
    o.steps = kSteps;
    o.flows = flows(writes);
    o.machine = &machine_;
    return engine::run(scene_, o);
  }

  double written_in_all() const {
    double all = 0;
    for (const double bytes : writes_.bytes) all += bytes;
    return all;
  }

  core::Seconds alone() const {
    engine::Exchanges exchanges(scene_, machine_, flows(true));
    std::vector<std::uint32_t> nobody;
    while (exchanges.written_at() < 0) exchanges.advance(exchanges.next(), nobody);
    return seconds(static_cast<double>(exchanges.written_at()));
  }

  // When the last rank has done the step.
  static double end_of(const engine::Outcome& outcome, int step) {
    std::int64_t end = 0;
    for (std::size_t a = 0; a < outcome.actors(); ++a)
      end = std::max(end, outcome.account(a, step).finish);
    return static_cast<double>(end);
  }

  const cost::Machine& machine_;
  const SimulateOptions& options_;
  const StateBytes bytes_;
  const engine::Writes writes_;
  const FlowStage stage_;
  const engine::Scene scene_;
};

}  // namespace

CheckpointTraffic checkpoint_traffic(const program::Program& program, const cost::Machine& machine,
                                     const SimulateOptions& options) {
  return CheckpointPlay(program, machine, options).run();
}

core::Problems checkpoint_problems(const Plan& plan, const SimulateOptions& o) {
  core::Problems problems;
  if (!o.checkpoint) return problems;
  if (!o.flows)
    return {{"--storage", "links that the steps share", "none", "write --links shared beside it"}};
  if (!o.checkpoint->to_nodes && !o.checkpoint->storage)
    problems.push_back({"--storage", "the bandwidth of the storage", "none",
                        "write --storage 20GB/s"});
  if (o.flows->sharing != engine::Sharing::shared)
    problems.push_back({"--links", "shared links where a checkpoint goes over them", "exclusive",
                        "write --links shared"});
  if (!o.checkpoint->to_nodes) return problems;
  const bool network = plan.profile.node.internode_bandwidth.value() > 0 || o.fabric;
  if (plan.nodes < 2 || !network)
    problems.push_back({"--saves", "two nodes or more, joined by a network",
                        fmt::format("{} of them", plan.nodes), "write --storage 20GB/s instead"});
  return problems;
}

core::Json checkpoint_json(const CheckpointTraffic& t) {
  return core::Json::object({{"to", t.to_nodes ? "node" : "storage"},
                             {"bytes", t.bytes.value()},
                             {"storage", t.storage ? core::Json(t.storage->value()) : core::Json()},
                             {"alone", t.alone.value()},
                             {"behind", t.behind.value()},
                             {"delay", t.delay.value()},
                             {"step", t.step ? core::Json(t.step->value()) : core::Json()}});
}

}  // namespace planner
