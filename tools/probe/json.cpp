#include "tools/probe/json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "tools/probe/require.hpp"

namespace probe {

Json::Json(double value) {
  if (!std::isfinite(value)) return;
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  text_.assign(buffer.data(), end);
}

Json::Json(std::string_view value) : text_(probe::quoted(value)) {}

Json Json::object() {
  Json json;
  json.kind_ = Kind::object;
  return json;
}

Json Json::array() {
  Json json;
  json.kind_ = Kind::array;
  return json;
}

Json Json::raw(std::string text) {
  Json json;
  json.text_ = std::move(text);
  return json;
}

Json& Json::operator[](std::string_view key) {
  if (kind_ == Kind::leaf && text_ == "null") kind_ = Kind::object;
  require(kind_ == Kind::object, "a member of a JSON value that is not an object");
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  if (found != keys_.end()) return items_[static_cast<std::size_t>(found - keys_.begin())];
  keys_.emplace_back(key);
  return items_.emplace_back();
}

bool Json::has(std::string_view key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

void Json::push(Json value) {
  if (kind_ == Kind::leaf && text_ == "null") kind_ = Kind::array;
  require(kind_ == Kind::array, "an element of a JSON value that is not an array");
  items_.push_back(std::move(value));
}

bool Json::flat() const {
  return items_.size() <= 8 && std::all_of(items_.begin(), items_.end(), [](const Json& item) {
    return item.kind_ == Kind::leaf && item.text_.size() <= 24 &&
           item.text_.find('\n') == std::string::npos;
  });
}

void Json::write(std::string& out, int depth) const {
  if (kind_ == Kind::leaf) {
    for (const char c : text_) {  // a raw text's own lines move in to this depth
      out += c;
      if (c == '\n') out.append(static_cast<std::size_t>(2 * depth), ' ');
    }
    return;
  }
  const bool object = kind_ == Kind::object;
  const bool one_line = flat();
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (i > 0) out += one_line ? ", " : ",";
    if (!one_line) out += '\n' + std::string(static_cast<std::size_t>(2 * depth + 2), ' ');
    if (object) out += probe::quoted(keys_[i]) + ": ";
    items_[i].write(out, depth + 1);
  }
  if (!one_line) out += '\n' + std::string(static_cast<std::size_t>(2 * depth), ' ');
  out += object ? '}' : ']';
}

std::string Json::dump() const {
  std::string out;
  write(out, 0);
  out += '\n';
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(byte));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace probe
