// What communicators hold of a device: by groups, by the GPUs of one node, by NCCL's release.

#include "planner/evaluate/communicators.hpp"

#include "hw_profiles/load.hpp"
#include "tests/catch.hpp"

using namespace planner;
using program::Group;
using program::Mesh;

namespace {

hw_profiles::Profile h100() { return hw_profiles::find_profile("h100-sxm-80g").value(); }

program::GroupSet of(std::initializer_list<Group> groups) {
  program::GroupSet set;
  for (const Group g : groups) set.add(g);
  return set;
}

constexpr core::Bytes kRing = core::mib(24 * 12);

}  // namespace

TEST_CASE("communicators: NVLS adds a quarter of a GiB on eight GPUs, and nothing on two") {
  const Mesh eight{.data = 8}, two{.data = 2};
  CHECK(communicator_bytes(eight, of({Group::data}), h100()) == kRing + core::mib(256));
  CHECK(communicator_bytes(two, of({Group::data}), h100()) == kRing);
}

TEST_CASE("communicators: before NCCL 2.22 every group of a node kept 2.25 GiB") {
  hw_profiles::Profile profile = h100();
  profile.node.nccl_minor = 18;
  const Mesh mesh{.tensor = 8, .data = 2};   // data ranks lie in nodes of their own
  CHECK(communicator_bytes(mesh, of({Group::tensor, Group::data}), profile) ==
        kRing * 2 + core::mib(2304));
  profile.node.nccl_nvls = false;
  CHECK(communicator_bytes(mesh, of({Group::tensor, Group::data}), profile) == kRing * 2);
}

TEST_CASE("communicators: a framework's own groups come beside those of the strategy") {
  hw_profiles::Profile profile = h100();
  const Mesh mesh{.tensor = 2, .data = 2, .pipeline = 2};
  const auto bytes = [&] { return communicator_bytes(mesh, {}, profile); };
  CHECK(bytes() == core::Bytes{});
  profile.framework.world_groups = 2;
  CHECK(bytes() == kRing * 2);         // for flags: no sums in the switch are made ready
  profile.framework.model_group = true;
  CHECK(bytes() == kRing * 3);
  profile.node.nccl_minor = 21;        // of 8, 8 and 4 GPUs
  CHECK(bytes() == kRing * 3 + core::mib(2304 + 2304 + 1152));
}

TEST_CASE("communicators: transfers staged through the host keep nothing on the device") {
  hw_profiles::Profile profile = h100();
  profile.node.link = hw_profiles::LinkKind::host_staged;
  CHECK(communicator_bytes(Mesh{.data = 2}, of({Group::data}), profile) == core::Bytes{});
}

TEST_CASE("mesh: expert ranks drawn from tensor ranks first") {
  // Tensor pairs 0 1, 2 3, 4 5 and 6 7; experts on 4 neighbours, which two groups of ranks hold.
  const Mesh mesh{.tensor = 2, .data = 4, .expert = 4, .expert_over_tensor = true};
  CHECK(mesh.members(Group::expert, 5) == std::vector{4, 5, 6, 7});
  CHECK(mesh.index(Group::expert, 5) == 1);
  CHECK(mesh.members(Group::expert_data, 5) == std::vector{1, 5});
  CHECK(mesh.index(Group::expert_data, 5) == 1);
  for (const int per_node : {2, 4, 8})
    for (const Group g : {Group::expert, Group::expert_data}) {
      int inside = 0;
      for (const int rank : mesh.members(g, 0)) inside += rank < per_node;
      CHECK(mesh.in_node(g, per_node) == inside);
    }
  // Of whole tensor groups alone, all data ranks hold the same experts.
  const Mesh one{.tensor = 2, .data = 2, .expert = 2, .expert_over_tensor = true};
  CHECK(one.members(Group::expert_data, 3) == one.members(Group::data, 3));
}

TEST_CASE("mesh: ranks of a group in one node, as members() lists them") {
  for (const int tensor : {1, 2, 8})
    for (const int shard : {1, 2, 4})
      for (const int pipeline : {1, 2, 4}) {
        Mesh mesh{.tensor = tensor, .data = 4, .pipeline = pipeline, .shard_group = shard};
        mesh.expert = 2;
        for (const Group g : {Group::tensor, Group::data, Group::shard, Group::replica,
                              Group::expert, Group::expert_data, Group::expert_shard,
                              Group::embedding, Group::next}) {
          if (mesh.group_size(g) == 1 || (g == Group::next && pipeline == 1)) continue;
          if (g == Group::expert_shard && shard < 2) continue;
          int inside = 0;
          for (const int rank : mesh.members(g, 0)) inside += rank < 8;
          INFO(static_cast<int>(g) << ' ' << tensor << ' ' << shard << ' ' << pipeline);
          CHECK(mesh.in_node(g, 8) == inside);
        }
      }
}
