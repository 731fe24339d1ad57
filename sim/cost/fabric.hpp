#pragma once
// Fabric: the links of a machine as NCCL sees them. Value type.

#include "core/units.hpp"
#include "hw_profiles/profile.hpp"

namespace cost {

// What of a profile NCCL's choice depends on.
struct Fabric {
  int generation = 1;           // row of NCCL's tables: 0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell
  bool linked = false;          // NVLink between all GPUs of the node, by a switch or a mesh
  bool meshed = false;          // each GPU linked to some of the others
  bool multicast = false;       // the switch reduces (NVLink SHARP): Hopper and later
  int channels = 2;             // that run inside a node
  int nics = 1;
  int gpus_per_node = 1;
  core::BytesPerSecond ring;    // bus bandwidth of large rings inside the node, of all its GPUs
  core::BytesPerSecond pair;    // inside a bridged pair, or any two of a mesh; zero: none
  core::BytesPerSecond nvlink;  // all links of one GPU, effective; zero: none
  core::BytesPerSecond network; // wire rate of the whole node
  double network_efficiency = 1;       // of it, that messages reach
  core::Seconds tree_wait{};           // by which sums over trees end later, for each rank
  core::Seconds hop{}, network_hop{};  // low-latency step inside; Simple step between nodes
  core::Seconds stated_latency{};      // by the network's plugin: for the choice alone
  bool low_latency = true;             // LL and LL128 run
  core::Bytes buffer{}, nvls_chunk{};  // zero: NCCL's own
};
Fabric make_fabric(const hw_profiles::Profile& profile);

// Channels of NVLS inside a node, and what one moves in a step; 0 where no switch reduces.
int nvls_channels(const Fabric& fabric);
core::Bytes nvls_chunk(const Fabric& fabric);

}  // namespace cost
