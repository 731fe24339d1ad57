#pragma once
// Internal: the table of every number of a Profile: its name in files, its kind, whether it may be
// left out, and how to reach it in the structs. Reading, writing and checking all walk this table,
// so a new field is one line here.

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "hw_profiles/profile.hpp"
#include "hw_profiles/quantity_text.hpp"

namespace hw_profiles {

struct Field {
  std::string_view name;  // "gpu.memory_bandwidth"
  Kind kind;
  bool optional;
  std::optional<double> (*get)(const Profile&);           // base unit; empty: none
  void (*put)(Profile&, std::optional<double> value);     // REQUIRES: a value, unless optional
  // Files of users and plans may be older than the field. They mean what a Profile holds before it
  // is filled. Optional fields need no such word.
  bool later = false;
};

// The source of what such a file means.
inline constexpr std::string_view kOlderFile = "not in the file, which is older than this field";
// Fields that older files have and nothing reads any more.
inline constexpr std::array<std::string_view, 2> kGone{"framework.tokens_once",
                                                       "node.tree_efficiency"};

std::span<const Field> fields();
const Field* find_field(std::string_view name);

// "gpu.memory_bandwidth" is the section gpu's key memory_bandwidth.
inline std::string_view part_of(const Field& f) { return f.name.substr(0, f.name.find('.')); }
inline std::string_view key_of(const Field& f) { return f.name.substr(f.name.find('.') + 1); }
inline constexpr std::array<std::string_view, 5> kSections{"gpu", "node", "native", "framework",
                                                           "site"};
inline constexpr std::string_view kSite = "site";   // the section that may be absent
inline constexpr std::string_view kNone = "none";   // as a value: the device has no such thing

}  // namespace hw_profiles
