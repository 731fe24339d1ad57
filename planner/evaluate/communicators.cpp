#include "planner/evaluate/communicators.hpp"

#include <algorithm>

#include "sim/cost/fabric.hpp"
#include "sim/cost/launches.hpp"

namespace planner {
namespace {

using program::Group;

constexpr core::Bytes kPerChannel = core::mib(12);
constexpr int kLeanMinor = 22;         // NVLS buffers are small, and made when they are used
constexpr core::Bytes kEarlyNvls = core::mib(6);
constexpr int kFewest = 3;             // GPUs of a node that NVLS takes (ncclNvlsInit)

// Of communicators with so many ranks in the node.
class Communicators {
 public:
  explicit Communicators(const hw_profiles::Profile& profile)
      : fabric_(cost::make_fabric(profile)),
        early_(profile.node.nccl_minor.value_or(kLeanMinor) < kLeanMinor),
        staged_(profile.node.link == hw_profiles::LinkKind::host_staged) {}

  // sums: it reduces vectors, not flags alone.
  void add(int in_node, bool sums) {
    if (staged_) return;
    bytes_ += kPerChannel * std::int64_t{fabric_.channels};
    if (fabric_.multicast && in_node >= kFewest) bytes_ += nvls(in_node, sums);
  }
  core::Bytes bytes() const { return bytes_; }
  int gpus_per_node() const { return fabric_.gpus_per_node; }

 private:
  core::Bytes nvls(int heads, bool sums) const {
    if (early_) return kEarlyNvls * (std::int64_t{2} * fabric_.channels * heads);
    if (!sums) return {};
    constexpr std::int64_t kSteps = 8;
    return cost::nvls_chunk(fabric_) * (kSteps * 2 * cost::nvls_channels(fabric_) * heads);
  }

  cost::Fabric fabric_;
  bool early_, staged_;
  core::Bytes bytes_{};
};

// Pairs of a worker and a server on two ranks that a rank of this class is one of.
int server_pairs(const program::Program& p, const program::RankClass& k) {
  const int itself = p.servers_colocated ? 1 : 0;
  const int as_worker = k.is_worker ? p.servers - (k.is_server ? itself : 0) : 0;
  return as_worker + (k.is_server ? p.mesh.data - itself : 0);
}

// Of point-to-point messages.
bool sums(Group group) { return group != Group::next && group != Group::previous; }

}  // namespace

core::Bytes communicator_bytes(const program::Mesh& mesh, program::GroupSet groups,
                               const hw_profiles::Profile& profile) {
  Communicators all(profile);
  const int per_node = all.gpus_per_node();
  for (std::size_t g = 0; g < program::kGroups; ++g) {
    const auto group = static_cast<Group>(g);
    if (groups.has(group)) all.add(mesh.in_node(group, per_node), sums(group));
  }
  if (mesh.workers() > 1)
    for (int i = 0; i < profile.framework.world_groups.value_or(0); ++i)
      all.add(std::min(mesh.workers(), per_node), false);
  if (profile.framework.model_group.value_or(false) && mesh.tensor > 1 && mesh.pipeline > 1)
    all.add(mesh.in_node(Group::tensor, per_node) *
                std::min(mesh.pipeline, 1 + (per_node - 1) / mesh.stride(program::Axis::pipeline)),
            false);
  return all.bytes();
}

core::Bytes communicator_bytes(const program::Program& program, const program::RankClass& k,
                               const hw_profiles::Profile& profile) {
  Communicators pairs(profile);
  for (int i = program.servers > 0 ? server_pairs(program, k) : 0; i > 0; --i) pairs.add(2, false);
  return pairs.bytes() + communicator_bytes(program.mesh, groups_of(program, k), profile);
}

program::GroupSet groups_of(const program::Program& program, const program::RankClass& k) {
  program::GroupSet groups;
  for (const program::Transfer& t : k.transfers)
    if (program.mesh.group_size(t.group) > 1 &&
        (program.servers == 0 || t.algorithm != program::Algorithm::parameter_server))
      groups.add(t.group);
  return groups;
}

core::Bytes workspace_bytes(const hw_profiles::Profile& profile) {
  return cost::attention_room(profile).always;
}

core::Bytes workspace_bytes(const program::Program& program, const program::RankClass& k,
                            const hw_profiles::Profile& profile) {
  const bool trains = !k.last_backward.empty();
  return trains ? cost::workspace_of(k.operators, program.samples, cost::attention_room(profile))
                : workspace_bytes(profile);
}

core::Bytes overhead_bytes(const program::Mesh& mesh, program::GroupSet groups,
                           const hw_profiles::Profile& profile) {
  return workspace_bytes(profile) + profile.gpu.context + communicator_bytes(mesh, groups, profile);
}

core::Bytes overhead_bytes(const program::Program& program, const program::RankClass& k,
                           const hw_profiles::Profile& profile) {
  return workspace_bytes(program, k, profile) + profile.gpu.context +
         communicator_bytes(program, k, profile);
}

}  // namespace planner
