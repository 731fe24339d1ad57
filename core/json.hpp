#pragma once
// JSON values of our own: what a file held, with the line and column of every value, and what a
// verb is about to write. Objects keep the order of their keys. Integers stay integers: int64
// first, uint64 beyond it, double beyond that. Reading a struct from a value: core/json_reader.hpp.
// Value type; thread-compatible.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/result.hpp"

namespace core {

class Json {
 public:
  struct Member;  // {key, value}

  // Bodies that make or end a value stand below Member, whose size they need.
  Json() noexcept;                // null
  Json(std::nullptr_t) noexcept;  // NOLINT: conversion meant, here and below
  template <std::same_as<bool> T>
  Json(T value);  // NOLINT
  template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, char>)
  Json(T value);  // NOLINT
  template <std::floating_point T>
  Json(T value);                      // NOLINT
  Json(const char* text);             // NOLINT
  Json(std::string_view text);        // NOLINT
  Json(std::string text);             // NOLINT
  template <class T>
  Json(const std::optional<T>& value);  // NOLINT: absent is null
  Json(const Json& from);
  Json(Json&& from) noexcept;
  Json& operator=(const Json& from);
  Json& operator=(Json&& from) noexcept;
  ~Json();

  static Json object();
  static Json object(std::initializer_list<Member> members);
  static Json array();
  static Json array(std::initializer_list<Json> items);
  static Json from_members(std::vector<Member> members);  // REQUIRES: no key twice
  static Json from_items(std::vector<Json> items);
  template <class Range>
  static Json array_of(const Range& items);

  // Replaces the key's value in its place, or appends the key; O(keys). REQUIRES: is_object().
  Json& set(std::string_view key, Json value);
  // REQUIRES: is_array().
  Json& push_back(Json value);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int64() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_uint64() const { return std::holds_alternative<std::uint64_t>(value_); }  // > int64 only
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int64() || is_uint64() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<std::vector<Json>>(value_); }
  bool is_object() const { return std::holds_alternative<std::vector<Member>>(value_); }

  // REQUIRES: the value is of that kind; as_double() takes any number.
  bool as_bool() const;
  std::int64_t as_int64() const;
  std::uint64_t as_uint64() const;
  double as_double() const;
  const std::string& as_string() const;
  const std::vector<Json>& items() const;
  const std::vector<Member>& members() const;

  // The key's value, or null when absent or when this is no object; O(keys).
  const Json* find(std::string_view key) const;
  // REQUIRES: the key is there.
  const Json& at(std::string_view key) const;
  // Items or keys; 0 for anything else.
  std::size_t size() const;

  // Place of the value's first character in its source, counted from 1 in characters (not bytes);
  // 0 for a value made in memory.
  int line() const { return line_; }
  int column() const { return column_; }
  void set_place(int line, int column) { line_ = line, column_ = column; }

  // Same kind and content, in the same order; places do not count.
  friend bool operator==(const Json& a, const Json& b);

 private:
  using Value = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string,
                             std::vector<Json>, std::vector<Member>>;

  template <class T>
  static Value integer(T value);

  Value value_;
  int line_ = 0;
  int column_ = 0;
};

struct Json::Member {
  std::string key;
  Json value;
  friend bool operator==(const Member&, const Member&) = default;
};

inline Json::Json() noexcept = default;
inline Json::Json(std::nullptr_t) noexcept {}
template <std::same_as<bool> T>
Json::Json(T value) : value_(value) {}
template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>)
Json::Json(T value) : value_(integer(value)) {}
template <std::floating_point T>
Json::Json(T value) : value_(static_cast<double>(value)) {}
inline Json::Json(const char* text) : value_(std::string(text)) {}
inline Json::Json(std::string_view text) : value_(std::string(text)) {}
inline Json::Json(std::string text) : value_(std::move(text)) {}
template <class T>
Json::Json(const std::optional<T>& value) {
  if (value) *this = Json(*value);
}
inline Json::Json(const Json& from) = default;
inline Json::Json(Json&& from) noexcept = default;
inline Json& Json::operator=(const Json& from) = default;
inline Json& Json::operator=(Json&& from) noexcept = default;
inline Json::~Json() = default;

template <class T>
Json::Value Json::integer(T value) {
  if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
  return static_cast<std::uint64_t>(value);
}

template <class Range>
Json Json::array_of(const Range& items) {
  Json result = array();
  for (const auto& item : items) result.push_back(Json(item));
  return result;
}

inline constexpr int kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonBytes = std::size_t{64} << 20;

// Reads one JSON document (RFC 8259, UTF-8, no comments). source_name is what problems call the
// text, usually its path. Refused with line and column: syntax errors, a key given twice in one
// object, nesting beyond kMaxJsonDepth, numbers beyond double, text beyond kMaxJsonBytes.
// O(bytes), plus O(k log k) for an object of k keys.
Result<Json> parse_json(std::string_view text, std::string_view source_name);

// indent 0: one line; otherwise `indent` spaces per level, with arrays of scalars on one line.
// Doubles take the fewest digits that read back equal and always keep a point or an exponent;
// those not finite become null, bytes that are not UTF-8 become U+FFFD, and hidden characters
// (core/untrusted.hpp) are written as \u escapes. No newline at the end.
std::string dump(const Json& value, int indent = 2);

}  // namespace core
