#pragma once
// Internal: a lowered program at another micro-batch, without lowering again. Only sizes per
// sample, the schedule and the slots of what is kept per forward pass in flight depend on it. Tests
// hold it equal to a fresh lowering in memory and time. Pure.

#include "planner/strategy/strategy.hpp"
#include "sim/program/program.hpp"

namespace planner {

// Changes `program`, lowered from `from`, to what `to` lowers to; false, and unchanged, where
// several passes would be in flight after one: the program of one tells no slots apart, and has
// nothing that waits for messages ahead of their pass.
// REQUIRES: from and to differ in micro_batch and grad_accum alone.
bool rescale(program::Program& program, const Strategy& to);

}  // namespace planner
