#include "exec/communicator/world.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace exec {

std::unique_ptr<Communicator> World::communicator(int rank, std::span<const int> group_ranks,
                                                  int channel, MessageMemory& memory) {
  const auto place = std::ranges::find(group_ranks, rank);
  PLANNER_CHECK(place != group_ranks.end(), "the rank is not in the group");
  return open(static_cast<int>(place - group_ranks.begin()), group_ranks, channel, memory);
}

int earlier_places(std::span<const int> group_ranks, int index) {
  const auto end = group_ranks.begin() + index;
  return static_cast<int>(std::count(group_ranks.begin(), end, *end));
}

}  // namespace exec
