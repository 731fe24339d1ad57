// TOML 1.0, by toml++.
#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "reports/imports/structured.hpp"

namespace reports::imports {
namespace {

using core::Json;

// Each dot of a key is a table within another, and the library walks them by recursion.
constexpr std::ptrdiff_t kMostDots = 4096;

Json json_of(const toml::node& node);

Json value_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    std::vector<Json::Member> members;
    for (const auto& [key, item] : *table)
      members.push_back({std::string(key.str()), json_of(item)});
    return Json::from_members(std::move(members));
  }
  if (const auto* array = node.as_array()) {
    std::vector<Json> items;
    for (const toml::node& item : *array) items.push_back(json_of(item));
    return Json::from_items(std::move(items));
  }
  if (const auto* text = node.as_string()) return Json(text->get());
  if (const auto* whole = node.as_integer()) return Json(whole->get());
  if (const auto* real = node.as_floating_point()) return Json(real->get());
  if (const auto* flag = node.as_boolean()) return Json(flag->get());
  std::ostringstream text;             // a date or a time
  node.visit([&](const auto& value) { text << value; });
  return Json(text.str());
}

Json json_of(const toml::node& node) {
  Json json = value_of(node);
  const toml::source_position& at = node.source().begin;
  json.set_place(static_cast<int>(at.line), static_cast<int>(at.column));
  return json;
}

}  // namespace

core::Result<core::Json> parse_toml(std::string_view text, const std::string& name) {
  if (const std::ptrdiff_t dots = std::ranges::count(text, '.'); dots > kMostDots)
    return core::Problem{name, fmt::format("a job file, with at most {} dots", kMostDots),
                         fmt::format("{} of them", dots), ""};
  try {
    return json_of(toml::parse(text, name));
  } catch (const toml::parse_error& error) {
    return core::Problem{fmt::format("{}:{}", name, error.source().begin.line), "TOML",
                         std::string(error.description()), ""};
  }
}

}  // namespace reports::imports
