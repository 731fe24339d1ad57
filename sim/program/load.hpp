#pragma once
// What an action of kind load reads: the model's input or its targets, which are data of the run.

#include <cstdint>

namespace program {

enum class Input : std::uint8_t { tokens, features, targets, feature_targets, types };  // of tokens
// What a load reads, as Action::op has it. Targets stand `ahead` places behind the model's input,
// which is 1 but for multi-token prediction.
struct Load {
  Input input = Input::tokens;
  int ahead = 1;
  static Load of(std::uint16_t op) { return {static_cast<Input>(op & 0xff), 1 + (op >> 8)}; }
  std::uint16_t op() const {
    return static_cast<std::uint16_t>(static_cast<int>(input) | (ahead - 1) << 8);
  }
};

}  // namespace program
