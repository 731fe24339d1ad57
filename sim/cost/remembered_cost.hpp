#pragma once
// Durations of many actions of one class, each distinct one computed once: a forward pass has the
// same operators and collectives wherever a layer runs again. The same figures as ActionCost's. Not
// thread-safe.

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/cost/action.hpp"

namespace cost {

class RememberedCost {
 public:
  // The cost outlives this.
  explicit RememberedCost(const ActionCost& cost);

  core::Picoseconds operator()(const program::Action& action, const program::Call& call);

 private:
  struct Collective {
    const program::Transfer* transfer = nullptr;
    std::int64_t elements = 0;
    core::Picoseconds time{};
  };
  core::Picoseconds collective(const program::Action& action, const program::Call& call);

  const ActionCost* cost_;
  // By operator: its forward pass, its input gradient, its weight gradient.
  std::vector<std::optional<core::Picoseconds>> operators_;
  std::vector<Collective> collectives_;  // a few
};

}  // namespace cost
