#pragma once
// Internal: the shipped files by what they describe, and how a profile's file is completed by them.
// A profile may name its node and framework ("node": "dgx-h100"), or write them out; either may be
// like a shipped one and state only what differs. Thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "core/embedded.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

namespace hw_profiles {

// What a profile states itself, or names.
struct Part {
  std::string_view key, kind, folder;
};
inline constexpr Part kNode{"node", "node", "nodes/"};
inline constexpr Part kFramework{"framework", "framework", "frameworks/"};
inline constexpr Part kProfile{"", "profile", "data/"};

// Ids of the shipped files of a part, sorted.
std::vector<std::string> ids(const Part& part);
// Null: none of that id.
const core::EmbeddedFile* shipped_file(const Part& part, std::string_view id);
core::Problem unknown(const std::string& wanted, const Part& part, std::string where);

// The profile with its node and framework written out; without a framework it is native.
core::Result<core::Json> with_parts(core::Json profile, std::string_view where);

}  // namespace hw_profiles
