#include "reports/fields.hpp"

#include <fmt/format.h>

namespace reports {

std::string csv_field(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  const bool quoted = out.find_first_of("\",\r\n") != std::string::npos;
  return quoted ? fmt::format("\"{}\"", out) : out;
}

std::string markdown_field(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '`' || c == '*' || c == '[') out += '\\';
    if (c == '<') out += "&lt;";
    else out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

}  // namespace reports
