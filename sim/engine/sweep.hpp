#pragma once
// Sweep: a max-plus pass [max-plus] over a scene. Each operation starts when its stream is free,
// its events have happened and its parties have come, and takes its own time; no clock and no
// queue, because nothing is shared but these. Operations are taken in issue order, actor by actor;
// one that waits for another actor stays pending, with whatever waits for it. The result does not
// depend on the order of actors: it is the least solution of a system of (max, +) equations.
//
// O(operations played); memory O(events of the actors + operations pending). An actor is played
// ahead until its compute stream pends, further only when nothing else moves. Blocks of a large
// scene (blocks.hpp) are swept side by side, in rounds. Thread-safe (pure).

#include <cstdint>

#include "sim/engine/outcome.hpp"
#include "sim/engine/scene.hpp"

namespace engine {

struct SweepOptions {
  int steps = 2;                       // the last of them is accounted (Scene::steps_of)
  bool critical_path = false;
  // Of the first step (without flush: of the run), block by block.
  std::vector<Played>* record = nullptr;
  std::uint32_t record_actor = kAbsent;   // this one's alone; kAbsent: everyone's
  int threads = 1;                     // that sweep blocks of the scene side by side; 0: all
  std::uint32_t block_actors = 0;      // of a block, at most; 0: as many as are fast
};

// REQUIRES: the program is sound (program::check).
Outcome sweep(const Scene& scene, const SweepOptions& options = {});

}  // namespace engine
