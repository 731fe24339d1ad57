#pragma once
// Clusters of several kinds of GPUs: "8xH100+8xA100". Ranks have the kinds in the order in which
// they are written. A Profile is that of the first kind; Profile::others has the other kinds, and
// from which rank on. Framework and number of GPUs per machine are the same for all.
//
// Kinds that NVLink joins sit in machines of their own. Cards that plug into PCIe share a machine
// where it has places for all of them. Pure; thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"

namespace hw_profiles {

struct CountedProfile {
  std::int64_t gpus = 0;
  Profile profile;                     // without others
};

// One profile of all kinds. stated_per_node: the GPUs of a machine were asked for. source: where
// the figures that follow from the mixture come from, as "--gpus 8xH100+8xA100". Problems: machines
// of different sizes; GPUs together with hosts. REQUIRES: kinds.
core::Result<Profile> mixed(std::vector<CountedProfile> kinds, bool stated_per_node,
                            std::string_view source);

std::size_t kinds(const Profile& profile);  // at least 1
// The kind of a rank, and its profile. REQUIRES of the second: index < kinds(profile); it has the
// others still where index is 0.
std::size_t kind_of_rank(const Profile& profile, std::int64_t rank);
const Profile& profile_of_kind(const Profile& profile, std::size_t index);
// GPUs of a kind, of a cluster of so many.
std::int64_t gpus_of_kind(const Profile& profile, std::size_t index, std::int64_t gpus);

// The first kind, with the mean price and board power of a cluster of so many; none where a kind
// states none.
Gpu mean_gpu(const Profile& profile, std::int64_t gpus);
// "8 x h100-sxm-80g + 8 x a100-sxm-80g", by a text of each kind.
std::string gpus_text(const Profile& profile, std::int64_t gpus, std::string Gpu::*text = &Gpu::id);

// What a group of ranks of several kinds communicates over: of links and network each the slower
// bandwidth and the longer latency. Without others.
Profile between_kinds(const Profile& profile);

}  // namespace hw_profiles
