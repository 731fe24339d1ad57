#include "hw_profiles/parts.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "hw_profiles/names.hpp"

std::span<const core::EmbeddedFile> hw_profiles_data();

namespace hw_profiles {
namespace {

bool belongs(const core::EmbeddedFile& file, const Part& part) {
  return file.name.starts_with(part.folder);
}

std::string id_of(const core::EmbeddedFile& file) {
  std::string_view name = file.name;
  name.remove_prefix(name.rfind('/') + 1);
  return std::string(name.substr(0, name.size() - std::string_view(".json").size()));
}

std::optional<core::Json> shipped_part(const Part& part, const std::string& id) {
  const core::EmbeddedFile* file = shipped_file(part, id);
  if (file == nullptr) return std::nullopt;
  return *core::parse_json(file->text, file->name);
}

// What a part says of itself over what the shipped one says that it is like; of `runs` key by key.
core::Json over(core::Json base, const core::Json& own) {
  for (const auto& [key, value] : own.members()) {
    if (key == "like") continue;
    core::Json merged = value;
    if (const core::Json* runs = key == "runs" ? base.find(key) : nullptr; runs != nullptr) {
      merged = *runs;
      for (const auto& [of, values] : value.members()) merged.set(of, values);
    }
    base.set(key, std::move(merged));
  }
  return base;
}

// The part's file where a profile names one; a part may also be written out in the profile. "like"
// names the shipped part of which it takes what it does not state.
core::Result<core::Json> with_part(core::Json profile, const Part& part, std::string_view where) {
  const core::Json* named = profile.find(part.key);
  if (named == nullptr) return profile;
  const auto missing = [&](const core::Json& at) {
    return unknown(at.as_string(), part,
                   fmt::format("{}:{}:{} /{}", where, at.line(), at.column(), part.key));
  };
  core::Json own = *named;
  if (named->is_string()) {
    auto shipped = shipped_part(part, named->as_string());
    if (!shipped) return missing(*named);
    own = *std::move(shipped);
  }
  if (const core::Json* like = own.find("like"); like != nullptr && like->is_string()) {
    auto base = shipped_part(part, like->as_string());
    if (!base) return missing(*like);
    own = over(*std::move(base), own);
  }
  profile.set(part.key, std::move(own));
  return profile;
}

}  // namespace

std::vector<std::string> ids(const Part& part) {
  std::vector<std::string> names;
  for (const core::EmbeddedFile& file : hw_profiles_data())
    if (belongs(file, part)) names.push_back(id_of(file));
  std::sort(names.begin(), names.end());
  return names;
}

const core::EmbeddedFile* shipped_file(const Part& part, std::string_view id) {
  for (const core::EmbeddedFile& file : hw_profiles_data())
    if (belongs(file, part) && id_of(file) == id) return &file;
  return nullptr;
}

core::Problem unknown(const std::string& wanted, const Part& part, std::string where) {
  return unknown_name(wanted, ids(part), part.kind, std::move(where));
}

core::Result<core::Json> with_parts(core::Json profile, std::string_view where) {
  if (profile.is_object() && profile.find(kFramework.key) == nullptr)
    profile.set(kFramework.key, "native");
  core::Result<core::Json> with_node = with_part(std::move(profile), kNode, where);
  if (!with_node.ok()) return with_node;
  return with_part(std::move(with_node).value(), kFramework, where);
}

}  // namespace hw_profiles
