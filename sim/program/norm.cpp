#include "sim/program/norm.hpp"

#include <algorithm>

namespace program {

bool counts_in_norm(const Program& p, const RankClass& k, int rank,
                    const PlacedParameter& of) {
  const models::Parameter& parameter = of.parameter;
  if (of.tied_copy) return false;
  const bool alike = parameter.split_axis < 0 && parameter.expert_ways == parameter.data_ways;
  if (alike && p.mesh.index(Group::tensor, rank) != 0) return false;
  const bool of_data = std::ranges::any_of(k.transfers, [](const Transfer& t) {
    return t.what == Traffic::norm && t.group == Group::data;
  });
  if (!of_data) return true;           // each has its own shard, or none sums over data ranks
  const Group holders = parameter.data_ways > 1 ? Group::expert_data : Group::data;
  return p.mesh.index(holders, rank) == 0;
}

}  // namespace program
