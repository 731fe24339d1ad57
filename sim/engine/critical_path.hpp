#pragma once
// The longest chain of a played step, found backwards in its record: from the operation that ends
// last to what ended when it began, and so on to the step's beginning. What was waited for is the
// operation before it in its stream, an event, or where parties meet what the last of them waited
// for. Works for both fidelities of collectives; where transfers are messages on shared wires their
// time on the chain holds the contention that they met.
//
// O(operations x log). Pure; thread-safe.

#include <vector>

#include "sim/engine/outcome.hpp"
#include "sim/engine/scene.hpp"

namespace engine {

// record: of the first step, every actor's. flows: collects wait for what is posted to have
// arrived, not for its start. The times sum to the makespan; of equal ends the operation of the
// lower actor that is issued first counts.
PathTimes critical_path(const Scene& scene, const std::vector<Played>& record, bool flows);

}  // namespace engine
