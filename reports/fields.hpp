#pragma once
// Texts as fields of tables that other programs read: names of files among them, so hidden
// characters are made visible (core/untrusted.hpp). Pure; thread-safe.

#include <string>
#include <string_view>

namespace reports {

// Of CSV, quoted where it must be [rfc4180]. A text that a spreadsheet would take for a formula
// (its first character is one of = + - @) gets a single quote in front. Not for numbers.
std::string csv_field(std::string_view text);
// A cell of a Markdown table: markup there is written with a backslash.
std::string markdown_field(std::string_view text);

}  // namespace reports
