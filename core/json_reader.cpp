#include "core/json_reader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/untrusted.hpp"

namespace core {
namespace {

constexpr std::size_t kMaxUnknownNamed = 20;

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 40;
  if (text.size() <= kShown) return dump(Json(text));
  std::size_t cut = kShown;
  // Whole characters of UTF-8 only.
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return dump(Json(std::string(text.substr(0, cut)) + "..."));
}

// The integer that a number is, if it is one: 4, 4.0 and 4e0, up to 2^53 in the latter forms.
std::optional<std::int64_t> integer_in(const Json& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_int64()) return value.as_int64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.as_double();
  if (std::trunc(number) != number || std::abs(number) > kExact) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// What is wrong with a string or key that holds a hidden character.
std::optional<Problem> hidden_problem(std::string_view text, std::string where) {
  const std::optional<std::string> hidden = hidden_in(text);
  if (!hidden) return std::nullopt;
  return Problem{std::move(where), "a text without control characters",
                 fmt::format("{} in {}", *hidden, in_quotes(text)), "remove the character"};
}

}  // namespace

std::string place_of(const Json& value, std::string_view source, std::string_view pointer) {
  std::string place(source);
  if (value.line() > 0) place += fmt::format(":{}:{}", value.line(), value.column());
  if (pointer.empty()) return place;
  return place.empty() ? std::string(pointer) : fmt::format("{} {}", place, pointer);
}

std::string describe(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array())
    return value.size() == 0 ? "an empty array" : fmt::format("an array of {}", value.size());
  return value.is_string() ? in_quotes(value.as_string()) : dump(value);
}

JsonReader::JsonReader(const Json& value, std::string source, std::string pointer,
                       Problems& problems)
    : value_(&value), source_(std::move(source)), pointer_(std::move(pointer)),
      problems_(&problems) {
  if (value.is_object()) return;
  mismatch(value, pointer_, "an object");
  value_ = nullptr;
}

JsonReader::JsonReader(const Json* value, const JsonReader& parent, std::string pointer)
    : value_(value), source_(parent.source_), pointer_(std::move(pointer)),
      problems_(parent.problems_) {
  if (!value || value->is_object()) return;
  mismatch(*value, pointer_, "an object");
  value_ = nullptr;
}

std::string JsonReader::pointer_to(std::string_view key) const {
  std::string pointer = pointer_ + "/";
  for (char c : key) {  // RFC 6901
    if (c == '~') pointer += "~0";
    else if (c == '/') pointer += "~1";
    else pointer += c;
  }
  return pointer;
}

const Json* JsonReader::take(std::string_view key, bool needed) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  if (!value_) return nullptr;
  const Json* found = value_->find(key);
  if (found && (needed || !found->is_null())) return found;
  if (needed) problem("", fmt::format("a key \"{}\"", key), "none", "");
  return nullptr;
}

bool JsonReader::has(std::string_view key) const {
  const Json* found = value_ ? value_->find(key) : nullptr;
  return found && !found->is_null();
}

std::vector<std::string_view> JsonReader::keys() const {
  std::vector<std::string_view> keys;
  if (!value_) return keys;
  for (const Json::Member& m : value_->members()) {
    auto hidden = hidden_problem(m.key, place_of(m.value, source_, pointer_to(m.key)));
    if (hidden) problems_->push_back(*std::move(hidden));
    else keys.push_back(m.key);
  }
  return keys;
}

void JsonReader::problem(std::string_view key, std::string expected, std::string found,
                         std::string fix) {
  const Json* at = value_ && !key.empty() ? value_->find(key) : nullptr;
  if (at) {
    problems_->push_back({place_of(*at, source_, pointer_to(key)), std::move(expected),
                          std::move(found), std::move(fix)});
    return;
  }
  const Json nowhere;
  problems_->push_back({place_of(value_ ? *value_ : nowhere, source_,
                                 key.empty() ? pointer_ : pointer_to(key)),
                        std::move(expected), std::move(found), std::move(fix)});
}

void JsonReader::mismatch(const Json& value, std::string_view pointer, std::string expected,
                          std::string fix) {
  problems_->push_back({place_of(value, source_, pointer), std::move(expected), describe(value),
                        std::move(fix)});
}

int JsonReader::index_of(const Json& value, std::string_view pointer,
                         std::span<const std::string_view> names) {
  if (value.is_string()) {
    const auto found = std::find(names.begin(), names.end(), value.as_string());
    if (found != names.end()) return static_cast<int>(found - names.begin());
  }
  const std::string_view near =
      value.is_string() ? nearest(value.as_string(), {names.begin(), names.end()}) : "";
  mismatch(value, pointer, fmt::format("one of {}", fmt::join(names, ", ")),
           near.empty() ? "" : fmt::format("did you mean \"{}\"?", near));
  return -1;
}

bool JsonReader::one_of(std::string_view key, std::span<const std::string_view> names,
                        std::string& out) {
  const Json* value = take(key, true);
  if (!value || index_of(*value, pointer_to(key), names) < 0) return false;
  out = value->as_string();
  return true;
}

bool JsonReader::optional_one_of(std::string_view key, std::span<const std::string_view> names,
                                 std::string& out) {
  return take(key, false) && one_of(key, names, out);
}

JsonReader JsonReader::object(std::string_view key) {
  return JsonReader(take(key, true), *this, pointer_to(key));
}

std::optional<JsonReader> JsonReader::optional_object(std::string_view key) {
  const Json* value = take(key, false);
  if (!value) return std::nullopt;
  return JsonReader(value, *this, pointer_to(key));
}

std::vector<JsonReader> JsonReader::readers(const Json* value, std::string_view key) {
  std::vector<JsonReader> readers;
  if (!value) return readers;
  if (!value->is_array()) {
    mismatch(*value, pointer_to(key), "an array of objects");
    return readers;
  }
  for (std::size_t i = 0; i < value->size(); ++i)
    readers.push_back(
        JsonReader(&value->items()[i], *this, fmt::format("{}/{}", pointer_to(key), i)));
  return readers;
}

std::vector<JsonReader> JsonReader::objects(std::string_view key) {
  return readers(take(key, true), key);
}

std::vector<JsonReader> JsonReader::optional_objects(std::string_view key) {
  return readers(take(key, false), key);
}

void JsonReader::allow_only_known() {
  if (!value_) return;
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  std::size_t unknown = 0;
  for (const Json::Member& m : value_->members()) {
    if (std::find(known.begin(), known.end(), m.key) != known.end()) continue;
    if (++unknown > kMaxUnknownNamed) continue;
    const std::string_view near = nearest(m.key, known);
    problem(m.key, "a known key", in_quotes(m.key),
            near.empty() ? fmt::format("known keys: {}", fmt::join(known, ", "))
                         : fmt::format("did you mean \"{}\"?", near));
  }
  if (unknown > kMaxUnknownNamed)
    problem("", "known keys", fmt::format("{} more unknown ones", unknown - kMaxUnknownNamed));
}

std::vector<std::string> JsonReader::unknown() const {
  std::vector<std::string> found;
  if (!value_) return found;
  for (const Json::Member& m : value_->members())
    if (!m.value.is_null() && std::find(known_.begin(), known_.end(), m.key) == known_.end() &&
        !hidden_problem(m.key, source_))
      found.push_back(m.key);
  return found;
}

bool JsonReader::read(const Json& value, std::string_view pointer, bool& out) {
  if (!value.is_bool()) mismatch(value, pointer, "true or false");
  else out = value.as_bool();
  return value.is_bool();
}

bool JsonReader::read(const Json& value, std::string_view pointer, std::string& out) {
  if (!value.is_string()) {
    mismatch(value, pointer, "a string");
    return false;
  }
  if (auto hidden = hidden_problem(value.as_string(), place_of(value, source_, pointer))) {
    problems_->push_back(*std::move(hidden));
    return false;
  }
  out = value.as_string();
  return true;
}

bool JsonReader::read(const Json& value, std::string_view pointer, std::int64_t& out,
                      IntRange range) {
  const std::optional<std::int64_t> number = integer_in(value);
  if (number && contains(range, *number)) {
    out = *number;
    return true;
  }
  mismatch(value, pointer, to_text(range));
  return false;
}

bool JsonReader::read(const Json& value, std::string_view pointer, int& out, IntRange range) {
  using Limits = std::numeric_limits<int>;
  std::int64_t wide = 0;
  range.low = std::max<std::int64_t>(range.low, Limits::min());
  range.high = std::min<std::int64_t>(range.high, Limits::max());
  if (!read(value, pointer, wide, range)) return false;
  out = static_cast<int>(wide);
  return true;
}

bool JsonReader::read(const Json& value, std::string_view pointer, double& out,
                      NumberRange range) {
  if (value.is_number() && contains(range, value.as_double())) {
    out = value.as_double();
    return true;
  }
  mismatch(value, pointer, to_text(range));
  return false;
}

bool JsonReader::read(const Json& value, std::string_view, Json& out) {
  out = value;
  return true;
}

}  // namespace core
