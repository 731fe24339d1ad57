#pragma once
// Internal to imports/: configuration files that are trees of keys. TOML and YAML are read as far
// as such files go, and refused by line beyond that: two parsers more would be two libraries more
// for every build, for files of a page. Pure; thread-safe.

#include <string>
#include <string_view>

#include "core/json.hpp"
#include "core/result.hpp"
#include "reports/imports/settings.hpp"

namespace reports::imports {

// The values by their keys from the root, "training.seq_len", each with its line.
// TOML 1.0 without dates, inline tables, arrays of tables and texts of several lines.
core::Result<core::Json> parse_toml(std::string_view text, const std::string& name);

// YAML of mappings within mappings, lists of plain values, and plain or quoted values. Without
// anchors, tags, flow mappings, texts of several lines and several documents.
core::Result<core::Json> parse_yaml(std::string_view text, const std::string& name);

// A setting for each value: its keys with dots between them behind the prefix, "training.seq_len".
// A list of values is one setting with several words; null is not said at all.
void add_settings(const core::Json& root, std::string_view prefix, const std::string& file,
                  Settings& settings, core::Problems& problems);

}  // namespace reports::imports
