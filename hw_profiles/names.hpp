#pragma once
// From what people type to the id of a shipped GPU, node or framework: "H100", "a100-80gb",
// "RTX 4090", "NVIDIA A100-SXM4-80GB", "p5.48xlarge". Letter case, blanks, hyphens and a maker's
// name do not matter; "80gb" is "80g". A name means an entry when each of its words is a word of
// the entry's id or, for a GPU, of its product name or memory size. What that rule cannot know,
// other spellings and which of several is usual, is data: names.json. Thread-safe.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"

namespace hw_profiles {

struct Meant {
  std::string id;
  // "H100 means h100-sxm-80g, the H100 of DGX, ...; others: ..." where others fit the name as well.
  std::string assumption{};
};

// Whether `name` is the path of a file: anything with '/' or ending in ".json".
bool is_path(std::string_view name);

// An id of profile_names() or node_names(); a path stands for itself. Problems: a name that several
// fit and none of them is usual (they are listed), a name that none fits (the nearest are
// suggested). `where` names the option.
core::Result<Meant> gpu_meant(std::string_view typed, std::string_view where = "--gpu");
core::Result<Meant> node_meant(std::string_view typed, std::string_view where = "--node");

// An id of framework_names(), or what was typed where nothing is called so: "Megatron-Core" is
// megatron_core; "NeMo", which has no file of its own, too, with the assumption said.
Meant framework_meant(std::string_view typed);

// The ids that an entry of names.json stands for, one by one; for tests.
std::vector<std::pair<std::string, std::string>> gpu_spellings();
std::vector<std::pair<std::string, std::string>> node_spellings();
std::vector<std::pair<std::string, std::string>> framework_spellings();
std::vector<std::string> usual_gpus();

// Nothing is called `wanted`: names that begin so come first, then those that hold it.
core::Problem unknown_name(const std::string& wanted, std::vector<std::string> names,
                           std::string_view kind, std::string where);

}  // namespace hw_profiles
