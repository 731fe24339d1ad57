#include "reports/fields.hpp"

#include <fmt/format.h>

#include "core/untrusted.hpp"

namespace reports {

std::string csv_field(std::string_view text) {
  std::string out;
  // A spreadsheet takes such a cell for a formula, and a quote before it for text.
  constexpr std::string_view kStartsFormula = "=+-@";
  if (!text.empty() && kStartsFormula.find(text.front()) != std::string_view::npos) out = '\'';
  for (const char c : core::visible(text)) {
    if (c == '"') out += '"';
    out += c;
  }
  const bool quoted = out.find_first_of("\",") != std::string::npos;
  return quoted ? fmt::format("\"{}\"", out) : out;
}

std::string markdown_field(std::string_view text) {
  std::string out;
  for (const char c : core::visible(text)) {
    if (c == '|' || c == '\\' || c == '`' || c == '*' || c == '[') out += '\\';
    if (c == '<') out += "&lt;";
    else out += c;
  }
  return out;
}

}  // namespace reports
