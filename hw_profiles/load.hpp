#pragma once
// Profiles as data: the embedded ones by name, others from a file, and the text that a plan file
// carries under "profile". A profile is checked whole: every missing field, unknown field, wrong
// unit, value out of range and contradiction of a file is reported at once, each with its place.
//
// The host profile's memory is that of the machine that makes the plan (core/machine_memory.hpp);
// from a plan file it comes back as the figure that was planned with.
// Thread-safe; reads files, keeps no state.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"

namespace hw_profiles {

// An embedded profile's id or another name that means it alone (names.hpp), or the path of a
// profile file (anything with '/' or ending in ".json"). An unknown name is a problem that suggests
// the nearest.
core::Result<Profile> find_profile(const std::string& name_or_path);

// Ids of the embedded profiles, nodes and frameworks, sorted.
std::vector<std::string> profile_names();
std::vector<std::string> node_names();
std::vector<std::string> framework_names();

// Replaces the node by an embedded one (its id or another name for it, names.hpp) or that of a
// file, with its sources, as --node does. A node
// whose links the GPU lacks is a problem, which leaves the profile as it was.
core::Status use_node(Profile& profile, const std::string& name_or_path, std::string_view source);
// The same of the framework, or of its successor where the GPU asks for that one; a profile that
// names none has `native`. as_of, "2024" or "2024-12": as its releases of that time were, where its
// file says what they did otherwise; empty: as it is today.
core::Status use_framework(Profile& profile, const std::string& name_or_path,
                           std::string_view source, std::string_view as_of = "");

// One JSON object, complete: profile_from_json_text gives back an equal profile, bit for bit. A
// number that was changed after loading is written as it is now and its source says so.
std::string to_json_text(const Profile& profile);

// `where` names the text in problems: "plan.json /cluster/profile".
core::Result<Profile> profile_from_json_text(std::string_view text, std::string_view where);

// Replaces one field and its source, as an option or a calibration does:
// set(p, "node.internode_bandwidth", "400 Gbps", "--internode-gbps"). "none" empties an optional
// field. On a problem the profile is left as it was.
core::Status set(Profile& profile, std::string_view field, std::string_view text,
                 std::string_view source);

}  // namespace hw_profiles
