#pragma once
// The models that we ship, as data with sources (models/zoo/*.json, embedded), and the one way from
// what a user typed to a ModelSpec. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "models/spec.hpp"

namespace models {

struct ZooEntry {
  ModelSpec spec;
  std::int64_t parameters = 0;
};

// All of them, families in order, smallest first. Parses every entry.
std::vector<ZooEntry> zoo();

// The zoo's name for what people type: "Llama-3-8B", "meta-llama/Meta-Llama-3-8B", "gpt2-xl"; ""
// where none is meant. Letter case, hyphens, the owner before a slash and words of how a model was
// tuned do not matter; other names are data (models/names.json).
std::string zoo_name(std::string_view typed);
// Those of the data, with what they mean.
std::vector<std::pair<std::string, std::string>> model_names();

// A zoo name or another name for one, else a path to a Hugging Face config.json, to a folder that
// holds one, or to a model file of ours. zoo_folder, when given, holds NAME.json files that take
// precedence over the embedded ones. Errors: unknown name (the nearest and the list are named), a
// file that cannot be read, a spec that does not hold.
// like: a model_type as which a config.json of one that is not known is read; "": it is refused.
core::Result<ModelSpec> find_model(const std::string& name_or_path,
                                   const std::string& zoo_folder = "",
                                   const std::string& like = "");

}  // namespace models
