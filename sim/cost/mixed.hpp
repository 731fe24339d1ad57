#pragma once
// Machines of several kinds of GPUs (hw_profiles/mixed.hpp): which of them times a rank's kernels,
// and which a group's transfers. Values; thread-safe to read.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cost/machine.hpp"
#include "sim/program/program.hpp"

namespace cost {

struct Mixed {
  std::vector<int> first_rank;         // by kind, ascending from 0
  std::vector<Machine> kinds;          // none of them mixed
  // Whose links a group of ranks of several kinds has (hw_profiles::between_kinds).
  Machine between;
  std::vector<Machine> apart;          // by kind: its kernels, with those links
};
Mixed make_mixed(std::vector<int> first_rank, std::vector<Machine> kinds, Machine between);

// The kinds of ranks [first, last), and of them the slowest at matrix products.
struct KindsOfRanks {
  std::size_t slowest = 0, first = 0, last = 0;  // kinds
};
KindsOfRanks kinds_of_ranks(const Mixed& mixed, std::int64_t first, std::int64_t last);

// What 16-bit matrix products reach, by which kinds are fast or slow.
core::FlopsPerSecond product_rate(const Machine& machine);
std::size_t kind_of_rank(const Machine& machine, int rank);
// The machine of a rank; itself where all ranks are alike.
const Machine& machine_of_rank(const Machine& machine, int rank);
// Of the ranks of a class, whose kernels end together, the slowest kind of GPU at matrix products.
const Machine& machine_of_class(const Machine& machine, const program::Program& program,
                                const program::RankClass& rank_class);
// Whose links the group of a rank has.
const Machine& machine_of_group(const Machine& machine, const program::Mesh& mesh,
                                program::Group group, int rank);
// By rank its kind, for what tells ranks apart; empty where all are alike.
std::vector<std::uint32_t> kind_marks(const Machine& machine, int ranks);

}  // namespace cost
