#pragma once
// Internal to imports/: configuration files that are trees of keys. Pure; thread-safe.

#include <string>
#include <string_view>

#include "core/json.hpp"
#include "core/result.hpp"
#include "reports/imports/settings.hpp"

namespace reports::imports {

// The values by their keys from the root, "training.seq_len", each with its line; dates and times
// of TOML as texts. Files that are broken, and keys of YAML that are no texts or stand twice, are
// problems at their line.
core::Result<core::Json> parse_toml(std::string_view text, const std::string& name);
core::Result<core::Json> parse_yaml(std::string_view text, const std::string& name);

// A setting for each value: its keys with dots between them behind the prefix, "training.seq_len".
// A list of values is one setting with several words; null is not said at all.
void add_settings(const core::Json& root, std::string_view prefix, const std::string& file,
                  Settings& settings, core::Problems& problems);

// A value as the word of a setting. Numbers that are whole stand without a fraction: 5e8 is a
// count.
std::string setting_word(const core::Json& value);

}  // namespace reports::imports
