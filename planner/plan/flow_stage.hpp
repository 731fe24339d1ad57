#pragma once
// Internal: what a simulation at the fidelity `flows` plays on: the links, the ranks that are alike
// on them, and afterwards how busy the links were. Pure; thread-safe.

#include <memory>
#include <optional>

#include "planner/plan/simulate.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/symmetry.hpp"

namespace planner {

class FlowStage {
 public:
  // Nothing where the options ask for no flows. writes, where given, outlives the stage: what ranks
  // write meanwhile, to the next node or to the storage of options.checkpoint.
  FlowStage(const program::Program& program, const cost::Machine& machine,
            const SimulateOptions& options, const engine::Writes* writes = nullptr);

  // REQUIRES of both: the program, the machine and the options are those of the stage.
  engine::Scene scene(const program::Program& program, const cost::Machine& machine,
                      const SimulateOptions& options) const;
  std::optional<engine::FlowOptions> flows(const SimulateOptions& options) const;

  // Of one step that takes `step`. REQUIRES: flows were asked for.
  LinkLoads loads(const engine::Outcome& outcome, core::Seconds step) const;

 private:
  std::unique_ptr<const engine::Topology> topology_;
  std::unique_ptr<const engine::Symmetry> symmetry_;  // null: every rank is played
  const engine::Writes* writes_;
};

// What of the options does not go with this plan's ranks and network.
core::Problems flow_problems(const Plan& plan, const SimulateOptions& options);
// What would take too long to play, where so many ranks are.
core::Problems too_many_messages(const program::Program& program, std::size_t played,
                                 const SimulateOptions& options);

// Whether something makes the step slower than the plan assumes.
bool is_slowed(const SimulateOptions& options);

// The profile with the NICs of the options' fabric.
hw_profiles::Profile with_fabric(const hw_profiles::Profile& profile,
                                 const SimulateOptions& options);

}  // namespace planner
