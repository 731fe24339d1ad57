#pragma once
// Constraints: what --pin and --forbid say about a strategy, key by key. A pin is "key=value", or
// "key=a|b" where any of several will do; forbidding takes the same text. Keys and values may have
// the names that papers and launchers use ("tp=8", "zero=3"; strategy_keys.hpp). Value type.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "planner/strategy/keys.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

class Constraints {
 public:
  // Problems: a text without '=', an unknown key (the nearest is suggested), a value that the key
  // cannot have (the allowed ones are named), a key pinned twice to different values.
  core::Status pin(std::string_view text);
  core::Status forbid(std::string_view text);
  // Only these values, unless the key is pinned, which then decides: "key=a|b". Not in texts().
  // Limits of sharding leave one data rank alone, which has nothing to shard.
  core::Status limit(std::string_view text);
  // The same of values "a|b" of a key, or of "key where other=c" or "key where other>1": of such
  // strategies alone.
  core::Status limit(std::string_view key, std::string_view values);
  // Takes back what was pinned of the key; what is forbidden of it stays.
  void release(std::string_view key);

  bool empty() const { return keys_.empty(); }
  bool admits(const Strategy& strategy) const;
  // Whether a scalar key may have this value, whatever the others are.
  bool admits(std::string_view key, std::int64_t value) const;
  // Whether these keys may have the values that the strategy has, whatever the other keys have. A
  // strategy whose other keys are still open is admitted by no choice of them if this is false.
  bool admits(const Strategy& strategy, std::initializer_list<std::string_view> keys) const;
  bool is_pinned(std::string_view key) const;
  // Values of a pinned scalar key, ascending; empty when it is not pinned.
  std::vector<std::int64_t> pinned(std::string_view key) const;
  // Puts the first pinned value of every pinned key whose name is in `keys` into the strategy.
  // What recompute_modules is pinned to, but for none.
  std::vector<models::ModuleSet> pinned_modules() const;
  // Items that a list is pinned to, the first of several; empty where it is not pinned.
  std::vector<std::string> pinned_items(std::string_view key) const;
  void put(Strategy& strategy, std::initializer_list<std::string_view> keys) const;
  // Key of the first constraint that the strategy breaks, or "".
  std::string_view broken(const Strategy& strategy) const;
  // Whether the limits alone admit it, whatever is pinned.
  bool is_within_limits(const Strategy& strategy) const;
  // Keys pinned to values beyond their limits.
  std::vector<std::string_view> beyond_limits() const;
  // Key of the first forbidden value that the strategy has, or "".
  std::string_view forbids(const Strategy& strategy) const;
  // The pins and forbids as they were given, in the planner's own names, for messages and
  // assumptions: "pin tensor=8".
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  struct Value {
    std::int64_t number = 0;             // scalars
    std::vector<std::string> items;      // lists
    friend auto operator<=>(const Value&, const Value&) = default;
  };
  struct KeyRule {
    const StrategyKey* key = nullptr;
    std::vector<Value> pinned, forbidden, limits;
    bool admits(const Value& value) const;
    bool has(const std::vector<Value>& values, const Value& value) const;
    bool is_broken(const Strategy& strategy) const;
  };

  // A limit of strategies that have one of `when`, or more than `above`.
  struct Conditional {
    const StrategyKey* key = nullptr;
    std::vector<Value> limits;
    const StrategyKey* other = nullptr;
    std::vector<Value> when;
    std::optional<std::int64_t> above;
    bool holds_for(const Value& other_value) const;
    friend bool operator==(const Conditional&, const Conditional&) = default;
  };
  bool meets(const Conditional& conditional, const Strategy& strategy) const;
  core::Status add_conditional(std::string_view own_limit, std::string_view where);

  static core::Result<Value> parse_value(const StrategyKey& key, std::string_view text,
                                         std::string_view where);
  static Value value_of(const StrategyKey& key, const Strategy& strategy);
  enum class Kind : std::uint8_t { pin, forbid, limit };
  core::Status add(std::string_view text, Kind kind);
  // A key and its values in the planner's own names.
  struct PlainPin {
    const StrategyKey* key = nullptr;
    std::vector<std::string> values;
  };
  static std::vector<PlainPin> plain_pins(const StrategyKey& key, std::string_view text,
                                          bool forbid);
  core::Status add(const PlainPin& plain, const std::string& where, Kind kind);
  KeyRule& rule(const StrategyKey& key);
  const KeyRule* find(std::string_view key) const;

  std::vector<KeyRule> keys_;
  std::vector<Conditional> conditionals_;
  std::vector<std::string> texts_;
};

// constraints.pin(text), under the name that the command line uses.
inline core::Status apply_pin(Constraints& constraints, std::string_view text) {
  return constraints.pin(text);
}
inline core::Status apply_forbid(Constraints& constraints, std::string_view text) {
  return constraints.forbid(text);
}

}  // namespace planner
