#pragma once
// The actions of one rank's step. Pure.

#include <cstdint>

#include "sim/program/program.hpp"

namespace program {

// visit(action, call, times): each action of each call of a step's routines, and how often the step
// runs it: 0 of what micro-batch 0 skips, if there is no other.
template <class Visit>
void for_each_action(const RankClass& k, Visit&& visit) {
  for_each_routine(k, [&](const Routine& routine, std::int64_t times, std::int64_t first) {
    if (times <= 0) return;
    for (const Call& call : routine) {
      const Block& block = k.blocks[call.block];
      for (std::uint32_t i = block.first; i < block.last; ++i) {
        const Action& action = k.actions[i];
        const bool skips = (action.flags & kSkipFirstMicroBatch) != 0;
        visit(action, call, times - (skips ? first : 0));
      }
    }
  });
}

}  // namespace program
