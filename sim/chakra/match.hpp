#pragma once
// Execution traces of all ranks, matched: which nodes meet. The k-th collective of a group on one
// rank meets the k-th on its others, the k-th send from a rank to another with a tag meets the k-th
// receive, in the order of the files. A group "" or "0" that nobody lists is all ranks. Pure.

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "sim/chakra/cost.hpp"
#include "sim/chakra/read.hpp"

namespace engine {

// Totals of one step of the busiest rank (most bytes sent, the lowest of equals).
struct ChakraTraffic {
  std::string what, collective, algorithm;
  int group_size = 1, busiest_rank = 0;
  std::int64_t count = 0, payload = 0, wire = 0;  // bytes, capped at the greatest int64
  double seconds = 0;
};

// Nodes of all ranks are numbered through, rank after rank.
struct ChakraTasks {
  std::vector<std::uint32_t> first;    // by rank, and one more: its first node
  std::vector<std::int64_t> duration;  // by node, picoseconds
  std::vector<std::uint32_t> task;     // by node: that it is part of
  std::vector<std::uint32_t> first_seat;  // by task, and one more: into seats
  std::vector<std::uint32_t> seats;    // nodes, by task
  // By node. Of a buffered send (chakra.hpp) the receive that may start when it has started, of
  // such a receive the send.
  std::vector<std::uint32_t> partner;  // kNobody: none
  std::vector<ChakraTraffic> traffic;  // by (what, collective, algorithm, group)
};
inline constexpr std::uint32_t kNobody = 0xffffffff;

// traces: by rank. machine: what transfers take there; null: what was recorded.
// Problems: groups that are not listed or are without the rank, parties that are missing, transfers
// that differ in kind or bytes between their parties, durations that nobody says.
core::Result<ChakraTasks> match_chakra(const std::vector<ChakraTrace>& traces,
                                       const std::vector<ChakraGroup>& groups,
                                       const cost::Machine* machine);

}  // namespace engine
