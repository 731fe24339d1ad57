#include "hw_profiles/mixed.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/check.hpp"
#include "hw_profiles/load.hpp"

namespace hw_profiles {
namespace {

bool plugs_in(const Profile& p) {
  return p.node.link == LinkKind::pcie_p2p || p.node.link == LinkKind::host_staged;
}

// GPUs of each machine that are in use; 0: the kinds' machines differ in it.
std::int64_t used_per_node(const std::vector<CountedProfile>& kinds, bool stated) {
  std::int64_t all = 0, places = kinds.front().profile.node.gpus_per_node;
  bool plugged = true;
  for (const CountedProfile& k : kinds) {
    all += k.gpus;
    places = std::min<std::int64_t>(places, k.profile.node.gpus_per_node);
    plugged = plugged && plugs_in(k.profile);
  }
  const auto fills = [&](const CountedProfile& k) { return k.gpus % places == 0; };
  if (plugged && (all <= places || (stated && !std::ranges::all_of(kinds, fills)))) return places;
  const auto used = [](const CountedProfile& k) {
    return std::min<std::int64_t>(k.gpus, k.profile.node.gpus_per_node);
  };
  const std::int64_t first = used(kinds.front());
  for (const CountedProfile& k : kinds)
    if (used(k) != first || k.gpus % first != 0) return 0;
  return first;
}

core::Problem machines_differ(const std::vector<CountedProfile>& kinds, std::string_view source) {
  std::string found;
  std::int64_t common = 0;
  for (const CountedProfile& k : kinds) {
    found += fmt::format("{}{} {} in machines of {}", found.empty() ? "" : ", ", k.gpus,
                         k.profile.gpu.id, k.profile.node.gpus_per_node);
    common = std::gcd(std::gcd(common, k.gpus), k.profile.node.gpus_per_node);
  }
  return {std::string(source), "kinds of GPUs that fill machines of one size", found,
          fmt::format("--gpus-per-node {} plans for machines of that many", common)};
}

}  // namespace

core::Result<Profile> mixed(std::vector<CountedProfile> kinds, bool stated_per_node,
                            std::string_view source) {
  PLANNER_CHECK(!kinds.empty());
  const bool is_gpu = kinds.front().profile.gpu.compute_capability.has_value();
  for (const CountedProfile& k : kinds)
    if (k.profile.gpu.compute_capability.has_value() != is_gpu)
      return core::Problem{std::string(source), "GPUs alone, or hosts alone", k.profile.gpu.id,
                           "plan for one of them"};
  const std::int64_t per_node = used_per_node(kinds, stated_per_node);
  if (per_node == 0) return machines_differ(kinds, source);
  for (CountedProfile& k : kinds) {
    if (k.profile.node.gpus_per_node == per_node) continue;
    if (auto done = set(k.profile, "node.gpus_per_node", fmt::format("{}", per_node), source);
        !done.ok())
      return done.problems();
  }
  Profile all = kinds.front().profile;
  std::int64_t rank = kinds.front().gpus;
  for (std::size_t i = 1; i < kinds.size(); ++i) {
    all.others.push_back({rank, std::move(kinds[i].profile)});
    rank += kinds[i].gpus;
  }
  return all;
}

std::size_t kinds(const Profile& profile) { return 1 + profile.others.size(); }

std::size_t kind_of_rank(const Profile& profile, std::int64_t rank) {
  const auto behind = std::ranges::upper_bound(profile.others, rank, {}, &OtherGpus::first_rank);
  return static_cast<std::size_t>(behind - profile.others.begin());
}

const Profile& profile_of_kind(const Profile& profile, std::size_t index) {
  return index == 0 ? profile : profile.others[index - 1].profile;
}

std::int64_t gpus_of_kind(const Profile& profile, std::size_t index, std::int64_t gpus) {
  const std::int64_t first = index == 0 ? 0 : profile.others[index - 1].first_rank;
  return (index < profile.others.size() ? profile.others[index].first_rank : gpus) - first;
}

Gpu mean_gpu(const Profile& profile, std::int64_t gpus) {
  Gpu mean = profile.gpu;
  if (profile.others.empty()) return mean;
  const auto set = [&](auto field) {
    auto& sum = mean.*field;
    if (sum) *sum = *sum * 0.0;
    for (std::size_t k = 0; k < kinds(profile); ++k) {
      const auto& one = profile_of_kind(profile, k).gpu.*field;
      const double share = static_cast<double>(gpus_of_kind(profile, k, gpus)) /
                           static_cast<double>(gpus);
      if (!one || !sum) sum.reset();
      else sum = *sum + *one * share;
    }
  };
  set(&Gpu::price);
  set(&Gpu::tdp);
  return mean;
}

std::string gpus_text(const Profile& profile, std::int64_t gpus, std::string Gpu::*text) {
  std::string all;
  for (std::size_t k = 0; k < kinds(profile); ++k)
    all += fmt::format("{}{} x {}", k == 0 ? "" : " + ", gpus_of_kind(profile, k, gpus),
                       profile_of_kind(profile, k).gpu.*text);
  return all;
}

Profile between_kinds(const Profile& profile) {
  std::size_t slowest = 0;
  const auto network = [](const Node& n) {
    return n.internode_bandwidth * n.internode_efficiency.value_or(1);
  };
  for (std::size_t i = 1; i < kinds(profile); ++i)
    if (network(profile_of_kind(profile, i).node) <
        network(profile_of_kind(profile, slowest).node))
      slowest = i;
  Profile all = profile_of_kind(profile, slowest);
  all.others.clear();
  Node& node = all.node;
  for (std::size_t i = 0; i < kinds(profile); ++i) {
    const Node& one = profile_of_kind(profile, i).node;
    node.internode_latency = std::max(node.internode_latency, one.internode_latency);
    if (one.link_bandwidth >= node.link_bandwidth) continue;
    node.link = one.link;
    node.link_bandwidth = one.link_bandwidth;
    node.link_latency = one.link_latency;
    node.host_bandwidth = one.host_bandwidth;
  }
  node.pair_bandwidth.reset();         // a bridge joins two cards of a kind
  node.pair_latency.reset();
  if (node.link == LinkKind::nvlink_pairs || node.link == LinkKind::nvlink_mesh)
    node.link = all.gpu.peer_to_peer ? LinkKind::pcie_p2p : LinkKind::host_staged;
  return all;
}

}  // namespace hw_profiles
