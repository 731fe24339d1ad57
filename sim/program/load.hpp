#pragma once
// What an action of kind load reads: the model's input or its targets, which are data of the run.

#include <cstdint>

#include "core/check.hpp"

namespace program {

enum class Input : std::uint8_t { tokens, features, targets, feature_targets, types };  // of tokens
// What a load reads, as Action::op has it. Targets stand `ahead` places behind the model's input,
// which is 1 but for multi-token prediction, and for operator graphs, whose inputs of tokens follow
// each other.
struct Load {
  Input input = Input::tokens;
  int ahead = 1;
  static Load of(std::uint16_t op) { return {static_cast<Input>(op & 0x7), 1 + (op >> 3)}; }
  std::uint16_t op() const {
    PLANNER_CHECK(ahead >= 1 && ahead <= 1 << 13, "places ahead that an action can say");
    return static_cast<std::uint16_t>(static_cast<int>(input) | (ahead - 1) << 3);
  }
};

}  // namespace program
