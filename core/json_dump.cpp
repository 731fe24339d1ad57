#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "core/json.hpp"
#include "core/untrusted.hpp"

namespace core {
namespace {

void write_escaped(char c, std::string& out) {
  constexpr std::string_view kPlain = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetter = "\"\\bfnrt";
  const std::size_t at = kPlain.find(c);
  if (at != std::string_view::npos) {
    out += '\\';
    out += kLetter[at];
  } else {
    std::array<char, 8> code{};
    std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
    out += code.data();
  }
}

void write_string(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (length == 0)
      out += "\xEF\xBF\xBD";
    else if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'))
      write_escaped(c, out);
    else if (const char32_t point = code_point(text, length); is_hidden(point))
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(point));
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

void write_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> digits{};  // the longest shortest form has 24 characters
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

class Writer {
 public:
  Writer(int indent, std::string& out) : indent_(indent), out_(out) {}

  void write(const Json& value, int depth) {
    if (value.is_null()) out_ += "null";
    if (value.is_bool()) out_ += value.as_bool() ? "true" : "false";
    if (value.is_int64()) out_ += std::to_string(value.as_int64());
    if (value.is_uint64()) out_ += std::to_string(value.as_uint64());
    if (value.is_double()) write_double(value.as_double(), out_);
    if (value.is_string()) write_string(value.as_string(), out_);
    if (value.is_array()) write_array(value, depth);
    if (value.is_object()) write_object(value, depth);
  }

 private:
  void write_array(const Json& value, int depth) {
    bool flat = true;
    for (const Json& item : value.items()) flat = flat && !item.is_array() && !item.is_object();
    out_ += '[';
    bool first = true;
    for (const Json& item : value.items()) {
      if (!first) out_ += flat && indent_ > 0 ? ", " : ",";
      if (!flat) new_line(depth + 1);
      write(item, depth + 1);
      first = false;
    }
    if (!flat) new_line(depth);
    out_ += ']';
  }

  void write_object(const Json& value, int depth) {
    out_ += '{';
    bool first = true;
    for (const Json::Member& member : value.members()) {
      if (!first) out_ += ',';
      new_line(depth + 1);
      write_string(member.key, out_);
      out_ += indent_ > 0 ? ": " : ":";
      write(member.value, depth + 1);
      first = false;
    }
    if (!first) new_line(depth);
    out_ += '}';
  }

  void new_line(int depth) {
    if (indent_ <= 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_ * depth), ' ');
  }

  int indent_;
  std::string& out_;
};

}  // namespace

std::string dump(const Json& value, int indent) {
  std::string out;
  Writer(indent, out).write(value, 0);
  return out;
}

}  // namespace core
