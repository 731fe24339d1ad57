#pragma once
// The keys of a Strategy as a table: name, kind, allowed values, how to reach the field. Pins, the
// plan file and `explain` walk this table, so a new key is one row. Immutable, thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/strategy/strategy.hpp"

namespace planner {

enum class KeyKind : std::uint8_t {
  count,    // an integer in [low, high]
  bytes,    // an integer in [low, high]; sizes take units on the command line
  boolean,
  choice,   // one of `choices`, by enumerator
  numbers,  // a list of integers >= 1
  words,    // a list of `choices`
  annotations,  // a list of NAME=FACTOR (models/splits.hpp); a pin holds for lists that have more
};

// What a key decides at the latest: the graph that is built; what a stage holds and exchanges; what
// its passes compute again; in what order ranks take passes, and of how many samples.
enum class KeyShapes : std::uint8_t { graph, stage, passes, schedule };

struct StrategyKey {
  std::string_view name;
  KeyKind kind{};
  KeyShapes shapes{};
  std::int64_t low = 0, high = 0;     // of kind numbers: low, of each
  std::span<const std::string_view> choices{};
  // Scalars (count, bytes, boolean, choice): the value as an integer.
  std::int64_t (*get)(const Strategy&) = nullptr;
  void (*put)(Strategy&, std::int64_t) = nullptr;
  // Lists; of words none of the three: the order of all `choices`. Annotations are `words`, too.
  std::vector<std::int64_t> Strategy::*numbers = nullptr;
  std::vector<std::string> Strategy::*words = nullptr;
  models::ModuleSet Strategy::*set = nullptr;  // of words: a bit for each of `choices`
  std::string_view example{};          // of numbers and annotations, what allowed_values says
  bool optional = false;               // in a plan file: its default where it is absent

  bool is_list() const {
    return kind == KeyKind::numbers || kind == KeyKind::words || kind == KeyKind::annotations;
  }
};

// In the order of the design's table, which is the order in the plan file.
std::span<const StrategyKey> strategy_keys();
const StrategyKey* find_strategy_key(std::string_view name);
// Whether two strategies agree in all keys that shape this, or what comes before it; in all of them
// but `stages`.
bool same(KeyShapes shapes, const Strategy& a, const Strategy& b);
bool same_but_stages(KeyShapes shapes, const Strategy& a, const Strategy& b);
std::vector<std::string_view> strategy_key_names();

// What papers and launchers call a key or one of its values; data, in strategy_keys.cpp.
struct OtherKeyName {
  std::string_view name, key;          // "tp", "tensor"
};
struct OtherValueName {
  std::string_view key, name, value;   // "sharding", "3", "zero3"
};
std::span<const OtherKeyName> other_key_names();
std::span<const OtherValueName> other_value_names();
// The key of this name or other name; letter case does not matter, '-' is '_'. Null: none.
const StrategyKey* strategy_key_meant(std::string_view typed);
// One value, or one item of a list, as the key writes it: "3" of sharding is "zero3", "full" of
// checkpoint "every_k(1)". What is nobody's name comes back as it is.
std::string value_meant(const StrategyKey& key, std::string_view typed);
// "data (dp), tensor (tp), ...": every key, with its most usual other name.
std::string strategy_key_list();

// Items as a user writes them, runs of stages ("4*30") written out; as they are where they are
// malformed. REQUIRES: key.is_list().
std::vector<std::string> expanded(const StrategyKey& key, std::vector<std::string> items);

// Lists: the items as text ("12", "tensor"). REQUIRES: key.is_list().
std::vector<std::string> list_value(const StrategyKey& key, const Strategy& strategy);
// REQUIRES: key.is_list() and items that list_problem accepts.
void put_list(const StrategyKey& key, Strategy& strategy, const std::vector<std::string>& items);
// What was expected, where the items cannot be this key's value.
std::optional<std::string> list_problem(const StrategyKey& key,
                                        const std::vector<std::string>& items);

// What a value may be: "an integer >= 1", "one of none, zero1, zero2, zero3".
std::string allowed_values(const StrategyKey& key);
// The value as it is written in a pin: "zero1", "8", "true", "12,12" ("auto" for no stages).
std::string value_text(const StrategyKey& key, const Strategy& strategy);

}  // namespace planner
