#pragma once
// JSON values of our own: what a file held, with the line and column of every value, and what a
// verb is about to write. Objects keep the order of their keys. Integers stay integers: int64
// first, uint64 beyond it, double beyond that. Reading a struct from a value: core/json_reader.hpp.
// Value type of 16 bytes, so that what a file holds takes few times its size; thread-compatible.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

  bool is_null() const { return tag_.kind == kNull; }
  bool is_bool() const { return tag_.kind == kBool; }
  bool is_int64() const { return tag_.kind == kInt64; }
  bool is_uint64() const { return tag_.kind == kUint64; }  // > int64 only
  bool is_double() const { return tag_.kind == kDouble; }
  bool is_number() const { return is_int64() || is_uint64() || is_double(); }
  bool is_string() const { return tag_.kind == kString; }
  bool is_array() const { return tag_.kind == kArray; }
  bool is_object() const { return tag_.kind == kObject; }

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
  int line() const { return static_cast<int>(tag_.line); }
  int column() const { return static_cast<int>(tag_.column); }
  void set_place(int line, int column);  // REQUIRES: 0 <= each <= kMaxJsonBytes

  // Same kind and content, in the same order; places do not count.
  friend bool operator==(const Json& a, const Json& b);

 private:
  // The kinds from kString on own what their pointer holds; an empty container has none.
  enum Kind : std::uint64_t { kNull, kBool, kInt64, kUint64, kDouble, kString, kArray, kObject };
  union Content {
    std::uint64_t uint64 = 0;
    std::int64_t int64;
    bool boolean;
    double number;
    std::string* text;
    std::vector<Json>* items;
    std::vector<Member>* members;
  };

  Json(Kind kind, Content content) noexcept : content_(content), tag_{.kind = kind} {}
  template <class T>
  static Json integer(T value);
  void release() noexcept;
  void swap(Json& other) noexcept;

  struct Tag {
    Kind kind : 4 = kNull;
    std::uint64_t line : 30 = 0;
    std::uint64_t column : 30 = 0;
  };

  Content content_;
  Tag tag_;
};

struct Json::Member {
  std::string key;
  Json value;
  friend bool operator==(const Member&, const Member&) = default;
};

inline Json::Json() noexcept = default;
inline Json::Json(std::nullptr_t) noexcept {}
template <std::same_as<bool> T>
Json::Json(T value) : Json(kBool, {.boolean = value}) {}
template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>)
Json::Json(T value) : Json(integer(value)) {}
template <std::floating_point T>
Json::Json(T value) : Json(kDouble, {.number = static_cast<double>(value)}) {}
inline Json::Json(const char* text) : Json(std::string(text)) {}
inline Json::Json(std::string_view text) : Json(std::string(text)) {}
inline Json::Json(std::string text) : Json(kString, {.text = new std::string(std::move(text))}) {}
template <class T>
Json::Json(const std::optional<T>& value) {
  if (value) *this = Json(*value);
}
inline Json::Json(Json&& from) noexcept { swap(from); }
inline Json& Json::operator=(const Json& from) { return *this = Json(from); }
inline Json& Json::operator=(Json&& from) noexcept {
  Json taken(std::move(from));  // `from` may be inside this value
  swap(taken);
  return *this;
}
inline Json::~Json() {
  if (tag_.kind >= kString) release();
}

static_assert(sizeof(Json) == 16);

inline void Json::swap(Json& other) noexcept {
  std::swap(content_, other.content_);
  std::swap(tag_, other.tag_);
}

template <class T>
Json Json::integer(T value) {
  if (std::in_range<std::int64_t>(value))
    return {kInt64, {.int64 = static_cast<std::int64_t>(value)}};
  return {kUint64, {.uint64 = static_cast<std::uint64_t>(value)}};
}

template <class Range>
Json Json::array_of(const Range& items) {
  Json result = array();
  for (const auto& item : items) result.push_back(Json(item));
  return result;
}

inline constexpr int kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonBytes = std::size_t{64} << 20;
// With its text, a document takes at most 8 times its size, or 64 MiB.
inline constexpr std::size_t kMostJsonMemory = 7;                            // times the text
inline constexpr std::size_t kMostSmallJsonMemory = std::size_t{56} << 20;  // bytes

// Reads one JSON document (RFC 8259, UTF-8, no comments). source_name is what problems call the
// text, usually its path. Refused with line and column: syntax errors, a key given twice in one
// object, nesting beyond kMaxJsonDepth, numbers beyond double, text beyond kMaxJsonBytes, values
// that take more memory than max(kMostSmallJsonMemory, kMostJsonMemory times the text).
// O(bytes), plus O(k log k) for an object of k keys.
Result<Json> parse_json(std::string_view text, std::string_view source_name);

// indent 0: one line; otherwise `indent` spaces per level, with arrays of scalars on one line.
// Doubles take the fewest digits that read back equal and always keep a point or an exponent;
// those not finite become null, bytes that are not UTF-8 become U+FFFD, and hidden characters
// (core/untrusted.hpp) are written as \u escapes. No newline at the end.
std::string dump(const Json& value, int indent = 2);

}  // namespace core
