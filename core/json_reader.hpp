#pragma once
// JsonReader: an object read into struct fields, with every problem of the file collected at once.
// Each problem names file:line:col and the JSON pointer, what was expected and what was found; an
// unknown key suggests the nearest valid one. A field that cannot be read keeps its value.
//
//   core::Problems problems;
//   core::JsonReader r(*json, "gpu.json", "", problems);
//   r.required("name", gpu.name);
//   r.required("memory_bytes", gpu.memory);                   // core::Bytes: an integer >= 0
//   r.required("sms", gpu.sms, core::IntRange{1, 1024});
//   r.optional("boost_hz", gpu.boost_hz, core::positive());
//   r.named("schedule", kSchedules, gpu.schedule);            // enum with name(E), by ADL
//   core::JsonReader link = r.object("link");
//   for (core::JsonReader& tier : r.objects("tiers")) ...
//   r.allow_only_known();
//   if (!problems.empty()) return problems;
//
// The reader keeps references to the value and to problems: both outlive it. Thread-compatible.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/json.hpp"
#include "core/range.hpp"
#include "core/units.hpp"

namespace core {

// "file:line:col /pointer" of a value; a value made in memory has no line.
std::string place_of(const Json& value, std::string_view source, std::string_view pointer);
// A value in a few words: "\"seven\"", "3.5", "an object", "an array of 3".
std::string describe(const Json& value);

class JsonReader {
 public:
  // pointer is the JSON pointer of the value, "" for the root. A value that is no object is one
  // problem, and every read of it then finds nothing without a further one.
  JsonReader(const Json& value, std::string source, std::string pointer, Problems& problems);

  // Reads the key into out, and says whether it did. Fields: bool, int, int64, double, string,
  // Quantity (not negative), std::optional and std::vector of those, and Json (as it is). A string
  // with hidden characters (core/untrusted.hpp) is a problem: names are printed and written on.
  // limits: IntRange for integers (4.0 and 1e6 are integers, 4.5 is not), NumberRange for doubles.
  // required: an absent key is a problem. optional: absent or null leaves out as it is.
  template <class T, class... Limits>
  bool required(std::string_view key, T& out, Limits... limits) {
    const Json* value = take(key, true);
    return value && read(*value, pointer_to(key), out, limits...);
  }
  template <class T, class... Limits>
  bool optional(std::string_view key, T& out, Limits... limits) {
    const Json* value = take(key, false);
    return value && read(*value, pointer_to(key), out, limits...);
  }

  // A string that must be one of names; the nearest is suggested.
  bool one_of(std::string_view key, std::span<const std::string_view> names, std::string& out);
  bool optional_one_of(std::string_view key, std::span<const std::string_view> names,
                       std::string& out);
  // The same for the enumerators in values (any range), each called what name(E) says.
  template <class Range, class E>
  bool named(std::string_view key, const Range& values, E& out) {
    return choose(take(key, true), key, values, out);
  }
  template <class Range, class E>
  bool optional_named(std::string_view key, const Range& values, E& out) {
    return choose(take(key, false), key, values, out);
  }

  // The object at the key; when it is missing, that is a problem and the reader finds nothing.
  JsonReader object(std::string_view key);
  std::optional<JsonReader> optional_object(std::string_view key);
  // The array of objects at the key, one reader each.
  std::vector<JsonReader> objects(std::string_view key);
  std::vector<JsonReader> optional_objects(std::string_view key);

  // Whether the key is there and not null. Does not make it known.
  bool has(std::string_view key) const;
  // The keys that are there, in order: for objects whose keys are data. Keys with hidden characters
  // are problems and left out.
  std::vector<std::string_view> keys() const;
  // Adds a problem at the key's value, or at this object when the key is absent or "".
  void problem(std::string_view key, std::string expected, std::string found, std::string fix = "");

  // Every key not asked for so far is a problem (the first 20 of an object are named).
  void allow_only_known();
  // Keys with values that were not asked for so far, in order. Those with hidden characters are
  // left out.
  std::vector<std::string> unknown() const;

 private:
  JsonReader(const Json* value, const JsonReader& parent, std::string pointer);

  const Json* take(std::string_view key, bool needed);
  std::string pointer_to(std::string_view key) const;
  void mismatch(const Json& value, std::string_view pointer, std::string expected,
                std::string fix = "");
  // Index of the value among names, or -1 with a problem.
  int index_of(const Json& value, std::string_view pointer,
               std::span<const std::string_view> names);
  std::vector<JsonReader> readers(const Json* value, std::string_view key);

  bool read(const Json& value, std::string_view pointer, bool& out);
  bool read(const Json& value, std::string_view pointer, std::string& out);
  bool read(const Json& value, std::string_view pointer, std::int64_t& out, IntRange range = {});
  bool read(const Json& value, std::string_view pointer, int& out, IntRange range = {});
  bool read(const Json& value, std::string_view pointer, double& out, NumberRange range = {});
  bool read(const Json& value, std::string_view pointer, Json& out);

  template <class Tag, class Rep, class... Limits>
  bool read(const Json& value, std::string_view pointer, Quantity<Tag, Rep>& out,
            Limits... limits) {
    Rep number{};
    bool done;
    if constexpr (sizeof...(Limits) > 0)
      done = read(value, pointer, number, limits...);
    else if constexpr (std::is_integral_v<Rep>)
      done = read(value, pointer, number, at_least(0));
    else
      done = read(value, pointer, number, not_negative());
    if (done) out = Quantity<Tag, Rep>(number);
    return done;
  }

  template <class T, class... Limits>
  bool read(const Json& value, std::string_view pointer, std::optional<T>& out, Limits... limits) {
    T inner{};
    if (!read(value, pointer, inner, limits...)) return false;
    out = std::move(inner);
    return true;
  }

  template <class T, class... Limits>
  bool read(const Json& value, std::string_view pointer, std::vector<T>& out, Limits... limits) {
    if (!value.is_array()) {
      mismatch(value, pointer, "an array");
      return false;
    }
    std::vector<T> items;
    for (std::size_t i = 0; i < value.size(); ++i) {
      T item{};
      if (read(value.items()[i], std::string(pointer) + "/" + std::to_string(i), item, limits...))
        items.push_back(std::move(item));
    }
    if (items.size() != value.size()) return false;
    out = std::move(items);
    return true;
  }

  template <class Range, class E>
  bool choose(const Json* value, std::string_view key, const Range& values, E& out) {
    if (!value) return false;
    std::vector<std::string_view> names;
    for (const E& e : values) names.push_back(name(e));
    const int index = index_of(*value, pointer_to(key), names);
    if (index >= 0) out = *(std::begin(values) + index);
    return index >= 0;
  }

  const Json* value_;  // null when the object is missing
  std::string source_;
  std::string pointer_;
  Problems* problems_;
  std::vector<std::string> known_;
};

}  // namespace core
