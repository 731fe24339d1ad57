#pragma once
// Internal: the table of every number of a Profile: its name in files, its kind, whether it may be
// left out, and how to reach it in the structs. Reading, writing and checking all walk this table,
// so a new field is one line here.

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
};

std::span<const Field> fields();
const Field* find_field(std::string_view name);

}  // namespace hw_profiles
