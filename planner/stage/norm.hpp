#pragma once
// The norm of all gradients, which Job::clip limits and which tells a loss scale whether gradients
// overflowed: over which ranks the squares are summed before a step's update. Stated here alone:
// the lowering emits these sums, the closed form times them. Which ranks count a gradient that
// several hold: sim/program/norm.hpp. Pure.

#include <array>
#include <cstddef>

#include "planner/strategy/strategy.hpp"
#include "sim/program/mesh.hpp"

namespace planner::stage {

// One sum after the other. Ranks that hold the same gradients make the same sums side by side, so
// replicas of data parallelism need none.
class NormGroups {
 public:
  void add(program::Group group) { groups_.at(count_++) = group; }
  const program::Group* begin() const { return groups_.data(); }
  const program::Group* end() const { return groups_.data() + count_; }

 private:
  std::array<program::Group, 3> groups_{};
  std::size_t count_ = 0;
};

// s: resolved. experts: of this stage, trained ones differ between data ranks.
inline NormGroups norm_groups(const Strategy& s, bool experts) {
  NormGroups groups;
  if (s.tensor > 1) groups.add(program::Group::tensor);
  if (s.sharding != Sharding::none && s.shard_group > 1)
    groups.add(program::Group::shard);
  else if (experts)
    groups.add(program::Group::data);
  if (s.pipeline > 1) groups.add(program::Group::pipeline);
  return groups;
}

}  // namespace planner::stage
