#pragma once
// A JSON value that is only written, never read: objects keep the order of insertion, so that one
// run's file can be compared with another's line by line. Numbers are written shortest-exact; a
// number that is not finite becomes null (JSON has no such number). Value type, thread-compatible.

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace probe {

class Json {
 public:
  Json() = default;  // null
  Json(bool value) : text_(value ? "true" : "false") {}
  Json(std::integral auto value) : text_(std::to_string(value)) {}
  Json(double value);
  Json(std::string_view value);
  Json(const std::string& value) : Json(std::string_view(value)) {}
  Json(const char* value) : Json(std::string_view(value)) {}

  static Json object();
  static Json array();
  // `text` is a complete JSON value already; it is copied as it stands.
  static Json raw(std::string text);

  // The member named `key`, null when new. REQUIRES: a null (which becomes an object) or an object.
  Json& operator[](std::string_view key);
  bool has(std::string_view key) const;
  // REQUIRES: a null (which becomes an array) or an array.
  void push(Json value);
  std::size_t size() const { return items_.size(); }
  // The text with two spaces per level; containers of plain numbers stay on one line.
  std::string dump() const;

 private:
  enum class Kind { leaf, object, array };
  void write(std::string& out, int depth) const;
  bool flat() const;

  Kind kind_ = Kind::leaf;
  std::string text_ = "null";       // leaf
  std::vector<std::string> keys_;   // object: as many as items_
  std::vector<Json> items_;         // object, array
};

// The value, or null.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// `text` with quotes, escaped as RFC 8259 asks.
std::string quoted(std::string_view text);

}  // namespace probe
