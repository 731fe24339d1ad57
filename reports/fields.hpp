#pragma once
// Texts as fields of tables that other programs read. Pure; thread-safe.

#include <string>
#include <string_view>

namespace reports {

// Of CSV, quoted where it must be [rfc4180].
std::string csv_field(std::string_view text);
// A cell of a Markdown table: markup there is written with a backslash, and it stays on its line.
std::string markdown_field(std::string_view text);

}  // namespace reports
