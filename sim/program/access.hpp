#pragma once
// What kinds of actions do: which belong to the update, and which of an action's views it writes
// (the others it reads). Of a kernel the operator's schema says so, of other actions the table of
// sim/program/README.md. A view that is added to or changed in place counts as written. Pure;
// thread-safe.

#include <cstdint>

#include "sim/program/program.hpp"

namespace program {

// Whether an action is part of the update that ends a step: the norm of all gradients, the step of
// the loss scale, and the optimizer.
constexpr bool updates(ActionKind kind) {
  return kind == ActionKind::square_sum || kind == ActionKind::scale_step ||
         kind == ActionKind::optimizer;
}

// Bit i is set when argument i is written. alloc, free and fence write nothing.
std::uint32_t written_args(const RankClass& rank_class, const Action& action);

// Whether the action adds a micro-batch's gradients to what its written views hold.
bool adds_gradients(const Action& action);

}  // namespace program
