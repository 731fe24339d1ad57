#include "sim/cost/mixed.hpp"

#include <algorithm>
#include <utility>

namespace cost {

core::FlopsPerSecond product_rate(const Machine& m) {
  return m.peak[static_cast<std::size_t>(core::DType::f16)] * m.gemm_efficiency;
}

Mixed make_mixed(std::vector<int> first_rank, std::vector<Machine> kinds, Machine between) {
  Mixed mixed{std::move(first_rank), std::move(kinds), std::move(between), {}};
  for (Machine machine : mixed.kinds) {
    const Machine& links = mixed.between;
    machine.link_latency = links.link_latency;
    machine.internode_latency = links.internode_latency;
    machine.rank_wait = links.rank_wait;
    machine.link = links.link;
    machine.pair = links.pair;
    machine.pair_latency = links.pair_latency;
    machine.meshed = links.meshed;
    machine.internode = links.internode;
    machine.fabric = links.fabric;
    mixed.apart.push_back(std::move(machine));
  }
  return mixed;
}

static std::size_t kind_in(const Mixed& mixed, std::int64_t rank) {
  return static_cast<std::size_t>(std::ranges::upper_bound(mixed.first_rank, rank) -
                                  mixed.first_rank.begin()) - 1;
}

KindsOfRanks kinds_of_ranks(const Mixed& mixed, std::int64_t first, std::int64_t last) {
  const std::size_t from = kind_in(mixed, first), to = kind_in(mixed, last - 1);
  KindsOfRanks found{from, from, to};
  for (std::size_t k = from + 1; k <= to; ++k)
    if (product_rate(mixed.kinds[k]) < product_rate(mixed.kinds[found.slowest])) found.slowest = k;
  return found;
}

std::size_t kind_of_rank(const Machine& machine, int rank) {
  return machine.mixed ? kind_in(*machine.mixed, rank) : 0;
}

const Machine& machine_of_rank(const Machine& machine, int rank) {
  return machine.mixed ? machine.mixed->kinds[kind_of_rank(machine, rank)] : machine;
}

const Machine& machine_of_class(const Machine& machine, const program::Program& program,
                                const program::RankClass& rank_class) {
  if (!machine.mixed) return machine;
  const auto index = static_cast<int>(&rank_class - program.classes.data());
  const Machine* slowest = nullptr;
  for (const int rank : program.ranks_of(index)) {
    const Machine& m = machine_of_rank(machine, rank);
    if (slowest == nullptr || product_rate(m) < product_rate(*slowest)) slowest = &m;
  }
  return slowest == nullptr ? machine.mixed->kinds.front() : *slowest;
}

const Machine& machine_of_group(const Machine& machine, const program::Mesh& mesh,
                                program::Group group, int rank) {
  if (!machine.mixed) return machine;
  const std::vector<int> members = mesh.members(group, rank);
  const std::size_t kind = kind_of_rank(machine, rank);
  const bool alike = std::ranges::all_of(
      members, [&](int member) { return kind_of_rank(machine, member) == kind; });
  return alike ? machine.mixed->kinds[kind] : machine.mixed->between;
}

std::vector<std::uint32_t> kind_marks(const Machine& machine, int ranks) {
  std::vector<std::uint32_t> marks;
  for (int rank = 0; machine.mixed && rank < ranks; ++rank)
    marks.push_back(static_cast<std::uint32_t>(kind_of_rank(machine, rank)));
  return marks;
}

}  // namespace cost
