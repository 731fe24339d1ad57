#pragma once
// Engine: a scene played in time. Pending ends of operations wait in a queue, in the order of
// (time, lowest rank, stream); the loop takes the first, finishes it, wakes what waited for it and
// starts what can start. Integer picoseconds, no wall clock: the same scene, options and seed give
// the same outcome and the same record, on any number of threads.
//
// A large scene is cut into blocks (blocks.hpp), each with a queue of its own. They are played in
// rounds: in a round, every block goes on by itself up to the first moment at which a meeting with
// another block can end. Between rounds, one thread brings together what the blocks report.
//
// Collectives at two fidelities: each in one duration of its own (timed), or as messages that share
// wires (flows: ring steps, tree edges, incast at servers; exchanges.hpp).
//
// Timed, it equals the sweep to the picosecond. Issue runs a bounded number of
// compute operations ahead of what has finished; should a program have work that could have started
// before it was issued, the scene is played again further ahead, so that the bound never shows.
//
// O(operations x log) at worst, O(operations) in effect; memory O(events of the actors + operations
// issued). Thread-safe (pure).

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/exchanges.hpp"
#include "sim/engine/outcome.hpp"
#include "sim/engine/scene.hpp"

namespace engine {

struct EngineOptions {
  int steps = 2;                       // the last of them is accounted (Scene::steps_of)
  // Transfers as messages that share wires, instead of each in its own time. REQUIRES: a scene that
  // is unfolded or folded by flows.symmetry, the machine that it was made for, and broken links
  // that have a way around.
  std::optional<FlowOptions> flows{};
  const cost::Machine* machine = nullptr;
  // That play blocks of the scene side by side (blocks.hpp); 0: all there are. Flows share wires
  // across the whole scene: one thread plays them.
  int threads = 1;
  std::uint32_t block_actors = 0;      // of a block, at most; 0: as many as are fast
  std::vector<Played>* record = nullptr;  // of the first step (without flush: of the run)
  std::uint32_t record_actor = kAbsent;   // this one's alone; kAbsent: everyone's
};

// REQUIRES: the program is sound (program::check).
Outcome run(const Scene& scene, const EngineOptions& options = {});

}  // namespace engine
