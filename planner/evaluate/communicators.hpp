#pragma once
// What a device holds beside a program's buffers: NCCL's buffers, the framework's libraries, the
// driver's context. Stated here alone. Pure; thread-safe.

#include "core/units.hpp"
#include "hw_profiles/profile.hpp"
#include "sim/program/program.hpp"

namespace planner {

// GPU memory of NCCL's buffers, for each group that a rank communicates in, and for those that its
// framework makes beside them (world_groups, model_group):
// - rings and trees: 12 MiB a channel (a send and a receive connection of Hopper's protocol
//   buffers, 2 + 10 MiB), of 24 channels under NVSwitch, 4 over NVLink pairs or PCIe; none where
//   transfers are staged through the host, whose buffers lie in host memory. Source: NVIDIA/nccl
//   v2.28.9, src/transport/p2p.cc; counts of 8-GPU nodes, NCCL issues 964 and 1685.
// - sums in the switch (NVLS), of more than two GPUs of a node: for each of them, both ways, 16
//   channels of eight chunks of 128 KiB, 256 MiB on 8 H100, where sums are taken; before NCCL 2.22
//   all channels, 4 MiB of buffer and 2 MiB of flags, 2.25 GiB on 8 H100, whatever the group does.
//   Source: NVIDIA/nccl src/transport/nvls.cc, ncclNvlsSetup; vllm-project/vllm issue 9699.
// mesh, groups: the program's, and the rank's own of more than one rank.
core::Bytes communicator_bytes(const program::Mesh& mesh, program::GroupSet groups,
                               const hw_profiles::Profile& profile);

// Of a rank of this class. A parameter server and a worker on another rank have a communicator for
// pushes and one for replies, each of which connects one way: together as much as a ring or tree.
core::Bytes communicator_bytes(const program::Program& program,
                               const program::RankClass& rank_class,
                               const hw_profiles::Profile& profile);

// The groups of more than one rank that a class communicates in, but for pushes and replies.
program::GroupSet groups_of(const program::Program& program, const program::RankClass& rank_class);

// Of matrix products, and what the framework's libraries hold.
core::Bytes workspace_bytes(const hw_profiles::Profile& profile);
// Of a rank of this class, with what calls of a library for its attention take.
core::Bytes workspace_bytes(const program::Program& program,
                            const program::RankClass& rank_class,
                            const hw_profiles::Profile& profile);

// Bytes of a device that no buffer of the program may use. The first overload leaves out what
// attention takes beyond the workspace that is always there (cost::workspace_of).
core::Bytes overhead_bytes(const program::Mesh& mesh, program::GroupSet groups,
                           const hw_profiles::Profile& profile);
core::Bytes overhead_bytes(const program::Program& program, const program::RankClass& rank_class,
                           const hw_profiles::Profile& profile);

}  // namespace planner
