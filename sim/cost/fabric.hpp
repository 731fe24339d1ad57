#pragma once
// Fabric: the links of a machine as NCCL sees them. Value type.

#include "core/units.hpp"
#include "hw_profiles/profile.hpp"

namespace cost {

// What of a profile NCCL's choice depends on.
struct Fabric {
  int generation = 1;           // row of NCCL's tables: 0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell
  bool switched = false;        // NVSwitch between all GPUs of the node
  bool multicast = false;       // the switch reduces (NVLink SHARP): Hopper and later
  int channels = 2;
  int gpus_per_node = 1;
  core::BytesPerSecond ring;    // bus bandwidth of large rings inside the node
  core::BytesPerSecond pair;    // inside a bridged pair; zero: none
  core::BytesPerSecond nvlink;  // all links of one GPU, effective; zero: none
  core::BytesPerSecond network; // of the whole node
  core::Seconds hop{}, network_hop{};  // low-latency step inside; Simple step between nodes
};
Fabric make_fabric(const hw_profiles::Profile& profile);

}  // namespace cost
