#pragma once
// The models that we ship, as data with sources (models/zoo/*.json, embedded), and the one way from
// what a user typed to a ModelSpec. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
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

// A zoo name, else a path to a Hugging Face config.json, to a folder that holds one, or to a model
// file of ours. zoo_folder, when given, holds NAME.json files that take precedence over the
// embedded ones. Errors: unknown name (the nearest and the list are named), a file that cannot be
// read, a spec that does not hold.
core::Result<ModelSpec> find_model(const std::string& name_or_path,
                                   const std::string& zoo_folder = "");

}  // namespace models
