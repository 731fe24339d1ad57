#pragma once
// HeldTime: what transfers take from the computing beside them. A routine's actions are taken in
// the order of issue; a kernel lasts longer by what the transfers issued since the kernel before
// hold (ActionCost::held), but for those that the compute stream waits for first. What is issued
// after the last kernel holds nobody. Value type.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/program/program.hpp"

namespace cost {

class HeldTime {
 public:
  // The next action of the class, which holds so long; returns how much longer it lasts.
  std::int64_t next(const program::RankClass& rank_class, const program::Action& action,
                    const program::Call& call, std::int64_t held) {
    return held == 0 && transfers_.empty() ? 0 : take(rank_class, action, call, held);
  }

 private:
  using Instance = std::pair<std::uint32_t, int>;  // event, its instance
  struct Transfer {
    program::Stream stream{};
    std::int64_t held = 0;
    std::optional<Instance> ends{};    // signalled then
  };
  std::int64_t take(const program::RankClass& rank_class, const program::Action& action,
                    const program::Call& call, std::int64_t held);
  void wait(const Instance& instance);

  std::vector<Transfer> transfers_;    // since the last kernel
};

}  // namespace cost
