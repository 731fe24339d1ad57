#pragma once
// The machine and the framework of a question: profiles from --gpu, --node and the options that
// change them. What was understood rather than stated goes into `assumptions`.

#include <string>
#include <vector>

#include "cli/plan_options.hpp"
#include "core/result.hpp"
#include "hw_profiles/profile.hpp"

namespace cli {

// Profiles of --gpu, or the default one with the assumption that it is.
std::vector<hw_profiles::Profile> read_profiles(const PlanOptions& options,
                                                std::vector<std::string>& assumptions,
                                                core::Problems& problems);
// --node, --gpus-per-node, --host-memory, --host-bandwidth and --internode-gbps.
void set_node(const PlanOptions& options, hw_profiles::Profile& profile, core::Problems& problems);
// The file of --site.
void set_site(const std::string& path, hw_profiles::Profile& profile, core::Problems& problems);
// The framework that --framework means.
std::string framework_named(const std::string& typed, std::vector<std::string>& assumptions);

}  // namespace cli
