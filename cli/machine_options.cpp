#include "cli/machine_options.hpp"

#include <fmt/format.h>

#include "cli/number_list.hpp"
#include "core/check.hpp"
#include "core/machine_memory.hpp"
#include "hw_profiles/detect.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/names.hpp"
#include "hw_profiles/site.hpp"

namespace cli {
namespace {

constexpr std::string_view kDefaultGpu = "h100-sxm-80g";

// The first shipped GPU that a machine named with --node is sold with; empty: it takes any.
std::optional<std::string> sold_gpu(const PlanOptions& options) {
  if (!options.node) return std::nullopt;
  for (const std::string& id : hw_profiles::profile_names()) {
    hw_profiles::Profile p = *hw_profiles::find_profile(id);
    if (!hw_profiles::use_node(p, *options.node, "--node").ok()) continue;
    return p.node.gpus.empty() ? std::nullopt : std::optional(id);
  }
  return std::nullopt;
}

// A plan for a GPU of this machine knows how much memory its host has.
void use_own_memory(hw_profiles::Profile& profile) {
  const std::optional<core::MachineMemory> own = core::machine_memory();
  if (!own) return;                    // the node's own figure stands
  const core::Status done = hw_profiles::set(
      profile, "node.host_memory", fmt::format("{} B", own->total.value()),
      own->bound.empty() ? "this machine's memory, MemTotal of /proc/meminfo"
                         : "this machine's memory, as bounded by " + own->bound);
  PLANNER_CHECK(done.ok(), "a size in bytes is a host's memory");
}

}  // namespace

std::vector<hw_profiles::Profile> read_profiles(const PlanOptions& options,
                                                std::vector<std::string>& assumptions,
                                                core::Problems& problems) {
  std::vector<std::string> names;
  bool is_local = false;
  if (options.gpu) {
    names = split_list(*options.gpu);
  } else if (const auto sold = sold_gpu(options)) {
    names.push_back(*sold);
    assumptions.push_back(fmt::format("GPU {}: {} is sold with it", *sold, *options.node));
  } else if (const auto local = hw_profiles::detect_local_gpu()) {
    names.push_back(*local);
    is_local = true;
    assumptions.push_back(
        fmt::format("GPU {}: found in this machine; name one with --gpu", *local));
  } else {
    names.emplace_back(kDefaultGpu);
    assumptions.push_back(
        fmt::format("GPU {}: none was named with --gpu, none found here", kDefaultGpu));
  }
  std::vector<hw_profiles::Profile> profiles;
  for (const std::string& name : names) {
    const auto meant = hw_profiles::gpu_meant(name);
    if (!meant.ok()) {
      core::append(problems, meant);
      continue;
    }
    if (!meant->assumption.empty())
      assumptions.push_back(fmt::format("GPU {}: {}", meant->id, meant->assumption));
    auto profile = hw_profiles::find_profile(meant->id);
    if (profile.ok())
      profiles.push_back(std::move(profile).value());
    else
      core::append(problems, profile);
  }
  if (is_local && !profiles.empty() && !options.node) use_own_memory(profiles.front());
  return profiles;
}

void set_site(const std::string& path, hw_profiles::Profile& profile, core::Problems& problems) {
  const core::Result<hw_profiles::SiteFile> site = hw_profiles::load_site(path);
  if (!site.ok()) return core::append(problems, site);
  core::append(problems, hw_profiles::use_site(profile, *site, "--site " + path));
}

void set_node(const PlanOptions& options, hw_profiles::Profile& profile, core::Problems& problems) {
  const auto set = [&](std::string_view field, const std::string& text, std::string_view option) {
    const core::Status done = hw_profiles::set(profile, field, text, option);
    if (done.ok()) return;
    core::Problems found = done.problems();
    for (core::Problem& p : found) p.where = std::string(option);
    problems.insert(problems.end(), found.begin(), found.end());
  };
  if (options.node)
    if (const auto done = hw_profiles::use_node(profile, *options.node, "--node"); !done.ok())
      core::append(problems, done);
  if (options.gpus_per_node) set("node.gpus_per_node", *options.gpus_per_node, "--gpus-per-node");
  if (options.host_memory) set("node.host_memory", *options.host_memory, "--host-memory");
  if (options.host_bandwidth)
    set("node.host_bandwidth", *options.host_bandwidth, "--host-bandwidth");
  if (options.internode_gbps)
    set("node.internode_bandwidth", *options.internode_gbps + " Gbps", "--internode-gbps");
}

std::string framework_named(const std::string& typed, std::vector<std::string>& assumptions) {
  const hw_profiles::Meant meant = hw_profiles::framework_meant(typed);
  if (!meant.assumption.empty())
    assumptions.push_back(fmt::format("framework {}: {}", meant.id, meant.assumption));
  return meant.id;
}

}  // namespace cli
