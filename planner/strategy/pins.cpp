#include "planner/strategy/pins.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "core/repeats.hpp"

namespace planner {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> boolean(std::string_view text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") return 1;
  if (text == "false" || text == "no" || text == "off" || text == "0") return 0;
  return std::nullopt;
}

std::optional<std::int64_t> scalar(const StrategyKey& key, std::string_view text) {
  std::optional<std::int64_t> value;
  if (key.kind == KeyKind::boolean) {
    value = boolean(text);
  } else if (key.kind == KeyKind::choice) {
    const auto at = std::ranges::find(key.choices, text);
    if (at != key.choices.end()) value = at - key.choices.begin();
  } else if (key.kind == KeyKind::bytes) {
    const core::Result<core::Bytes> size = core::parse_bytes(text, key.name);
    if (size.ok()) value = size.value().value();
  } else {
    value = integer(text);
  }
  const bool in_range = value && *value >= key.low && *value <= key.high;
  return in_range ? value : std::nullopt;
}

core::Problem bad_value(const StrategyKey& key, std::string_view text, std::string_view where) {
  core::Problem problem{.where = std::string(where),
                        .expected = allowed_values(key),
                        .found = fmt::format("\"{}\"", text),
                        .fix = ""};
  const std::vector<std::string_view> choices(key.choices.begin(), key.choices.end());
  const std::string_view near = core::nearest(text, choices);
  if (!near.empty()) problem.fix = fmt::format("did you mean {}={}?", key.name, near);
  return problem;
}

core::Problem unknown_key(std::string_view name, const std::string& where) {
  std::vector<std::string_view> names = strategy_key_names();
  for (const OtherKeyName& other : other_key_names())
    if (other.name.size() > 3) names.push_back(other.name);  // any two letters are near "dp"
  const std::string_view near = core::nearest(name, names);
  const StrategyKey* key = strategy_key_meant(near);
  return {where, fmt::format("a key of the strategy: {}", strategy_key_list()),
          fmt::format("\"{}\"", name),
          key == nullptr ? std::string() : fmt::format("did you mean {}?", key->name)};
}

}  // namespace

// "tp=8" is tensor=8. "checkpoint=every_k(2)|none", as plans print it, is two pins:
// checkpoint=every_k|none and checkpoint_every=2|0. Forbidding every_k(2) leaves the other k.
// first_k(2) alike, and modules(layernorm+moe) with recompute_modules.
std::vector<Constraints::PlainPin> Constraints::plain_pins(const StrategyKey& key,
                                                           std::string_view text, bool forbid) {
  // What stands in brackets is another key's value: given, or left open by a name alone.
  struct Bracket {
    PlainPin pin;
    std::string_view otherwise;        // of values that carry none
    bool given = false, open = false;
  };
  std::array<Bracket, 2> brackets{Bracket{{find_strategy_key("checkpoint_every"), {}}, "0"},
                                  Bracket{{find_strategy_key("recompute_modules"), {}}, "none"}};
  PlainPin own{&key, {}};
  for (std::string_view part : split(text, '|')) {
    std::string value;
    for (std::string_view item : key.is_list() ? split(part, ',') : std::vector{part})
      value.append(value.empty() ? "" : ",").append(value_meant(key, item));
    const std::string named = value.substr(0, value.find('('));
    const auto kind = key.name == "checkpoint" ? checkpoint_from_name(named) : std::nullopt;
    const bool closes = value.size() > named.size() && value.ends_with(')');
    bool carried = false;
    for (Bracket& bracket : brackets) {
      const bool counts = &bracket == brackets.data();
      const bool carries =
          kind && (counts ? counts_layers(*kind) : *kind == Checkpoint::modules);
      if (carries && closes) {
        std::string inside = value.substr(named.size() + 1, value.size() - named.size() - 2);
        std::ranges::replace(inside, '+', ',');
        bracket.pin.values.push_back(std::move(inside));
        bracket.given = carried = true;
      } else if (carries) {
        bracket.open = bracket.open || value == named;
      } else if (!forbid) {
        bracket.pin.values.emplace_back(bracket.otherwise);
      }
    }
    if (!carried || !forbid) own.values.push_back(carried ? named : std::move(value));
  }
  std::vector<PlainPin> pins;
  if (!own.values.empty()) pins.push_back(std::move(own));
  for (Bracket& bracket : brackets)
    if (bracket.given && !bracket.open) pins.push_back(std::move(bracket.pin));
  return pins;
}

// Annotations that are pinned may be completed by others.
bool Constraints::KeyRule::has(const std::vector<Value>& values, const Value& value) const {
  return std::ranges::any_of(values, [&](const Value& v) {
    if (v == value || key->kind != KeyKind::annotations) return v == value;
    return !v.items.empty() && std::ranges::all_of(v.items, [&](const std::string& item) {
      return std::ranges::find(value.items, item) != value.items.end();
    });
  });
}

// Annotations that are pinned to auto say nothing.
bool Constraints::KeyRule::admits(const Value& value) const {
  const std::vector<Value>& allowed = pinned.empty() ? limits : pinned;
  const bool any = allowed.empty() || (key->kind == KeyKind::annotations &&
                                       std::ranges::any_of(allowed, [](const Value& v) {
                                         return v.items.empty();
                                       }));
  return (any || has(allowed, value)) && !has(forbidden, value);
}

core::Result<Constraints::Value> Constraints::parse_value(const StrategyKey& key,
                                                          std::string_view text,
                                                          std::string_view where) {
  if (!key.is_list()) {
    const std::optional<std::int64_t> value = scalar(key, text);
    if (!value) return bad_value(key, text, where);
    return Value{.number = *value, .items = {}};
  }
  std::vector<std::string> items;
  const std::string_view none = key.kind == KeyKind::words ? "none" : "auto";
  if (text != none)
    for (std::string_view item : split(text, ',')) items.emplace_back(trimmed(item));
  items = expanded(key, std::move(items));
  if (list_problem(key, items)) return bad_value(key, text, where);
  if (key.set != nullptr) {            // in one order, whatever was typed
    Strategy put;
    put_list(key, put, items);
    items = list_value(key, put);
  }
  return Value{.number = 0, .items = std::move(items)};
}

core::Status Constraints::add(std::string_view text, Kind kind) {
  static constexpr std::array<std::string_view, 3> kFrom{"--pin", "--forbid", "framework.runs"};
  const std::string where = fmt::format("{} {}", kFrom[static_cast<std::size_t>(kind)], text);
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return core::Problem{where, "key=value", fmt::format("\"{}\"", text), "write data=8"};
  const std::string_view name = text.substr(0, equals);
  const StrategyKey* key = strategy_key_meant(name);
  if (key == nullptr) return unknown_key(name, where);
  for (const PlainPin& plain : plain_pins(*key, text.substr(equals + 1), kind == Kind::forbid))
    if (core::Status done = add(plain, where, kind); !done.ok()) return done;
  return core::Done{};
}

core::Status Constraints::add(const PlainPin& plain, const std::string& where, Kind kind) {
  std::vector<Value> values;
  for (const std::string& part : plain.values) {
    core::Result<Value> value = parse_value(*plain.key, part, where);
    if (!value.ok()) return value.problems();
    values.push_back(std::move(value).value());
  }
  core::sort_unique(values);
  KeyRule& of_key = rule(*plain.key);
  std::vector<Value>& known = kind == Kind::forbid  ? of_key.forbidden
                              : kind == Kind::limit ? of_key.limits
                                                    : of_key.pinned;
  const std::string_view name = plain.key->name;
  if (kind == Kind::pin && !known.empty() && known != values)
    return core::Problem{where, fmt::format("one pin of {}", name), "a second, different one",
                         fmt::format("allow several as {}=A|B", name)};
  if (kind == Kind::limit) known.clear();  // a plan within a plan limits once more
  known.insert(known.end(), values.begin(), values.end());
  if (kind != Kind::limit)
    texts_.push_back(fmt::format("{} {}={}", kind == Kind::pin ? "pin" : "forbid", name,
                                 fmt::join(plain.values, "|")));
  return core::Done{};
}

core::Status Constraints::pin(std::string_view text) { return add(text, Kind::pin); }
core::Status Constraints::forbid(std::string_view text) { return add(text, Kind::forbid); }
core::Status Constraints::limit(std::string_view text) { return add(text, Kind::limit); }

core::Status Constraints::limit(std::string_view key, std::string_view values) {
  constexpr std::string_view kWhere = " where ";
  const std::size_t at = key.find(kWhere);
  const std::string own = fmt::format("{}={}", key.substr(0, at), values);
  if (at == std::string_view::npos) return limit(own);
  return add_conditional(own, key.substr(at + kWhere.size()));
}

// Both sides are read as limits are.
core::Status Constraints::add_conditional(std::string_view own_limit, std::string_view where) {
  const std::size_t more = where.find('>');
  std::string condition(where);
  if (more != std::string_view::npos) condition[more] = '=';
  Constraints sides;
  if (core::Status done = sides.limit(own_limit); !done.ok()) return done;
  if (core::Status done = sides.limit(condition); !done.ok()) return done;
  PLANNER_CHECK(sides.keys_.size() == 2, "a limit of one key where another has a value");
  const KeyRule &own = sides.keys_.front(), &other = sides.keys_.back();
  Conditional added{own.key, own.limits, other.key, other.limits, {}};
  if (more != std::string_view::npos) {
    added.above = other.limits.front().number;
    added.when.clear();
  }
  if (std::ranges::find(conditionals_, added) == conditionals_.end())
    conditionals_.push_back(std::move(added));
  return core::Done{};
}

bool Constraints::Conditional::holds_for(const Value& other_value) const {
  if (above) return other_value.number > *above;
  return std::ranges::find(when, other_value) != when.end();
}

// One data rank has nothing to shard.
static bool limits_nothing(const StrategyKey& key, const Strategy& strategy) {
  return key.name == "sharding" && strategy.data_ranks() == 1 &&
         strategy.sharding == Sharding::none;
}

bool Constraints::meets(const Conditional& c, const Strategy& strategy) const {
  return limits_nothing(*c.key, strategy) || !c.holds_for(value_of(*c.other, strategy)) ||
         std::ranges::find(c.limits, value_of(*c.key, strategy)) != c.limits.end();
}

void Constraints::release(std::string_view key) {
  for (KeyRule& r : keys_)
    if (r.key->name == key) r.pinned.clear();
  std::erase_if(texts_, [&](const std::string& text) {
    return text.starts_with(fmt::format("pin {}=", key));
  });
}

Constraints::KeyRule& Constraints::rule(const StrategyKey& key) {
  for (KeyRule& r : keys_)
    if (r.key == &key) return r;
  keys_.push_back({.key = &key, .pinned = {}, .forbidden = {}, .limits = {}});
  return keys_.back();
}

const Constraints::KeyRule* Constraints::find(std::string_view key) const {
  for (const KeyRule& r : keys_)
    if (r.key->name == key) return &r;
  return nullptr;
}

Constraints::Value Constraints::value_of(const StrategyKey& key, const Strategy& strategy) {
  if (key.is_list()) return {.number = 0, .items = list_value(key, strategy)};
  return {.number = key.get(strategy), .items = {}};
}

bool Constraints::KeyRule::is_broken(const Strategy& strategy) const {
  const Value value = value_of(*key, strategy);
  const bool is_free = pinned.empty() && limits_nothing(*key, strategy);
  return is_free ? has(forbidden, value) : !admits(value);
}

std::string_view Constraints::broken(const Strategy& strategy) const {
  for (const KeyRule& r : keys_)
    if (r.is_broken(strategy)) return r.key->name;
  for (const Conditional& c : conditionals_)
    if (!is_pinned(c.key->name) && !meets(c, strategy)) return c.key->name;
  return {};
}

std::string_view Constraints::forbids(const Strategy& strategy) const {
  for (const KeyRule& r : keys_)
    if (!r.forbidden.empty() &&
        std::ranges::find(r.forbidden, value_of(*r.key, strategy)) != r.forbidden.end())
      return r.key->name;
  return {};
}

bool Constraints::is_within_limits(const Strategy& strategy) const {
  return std::ranges::all_of(keys_, [&](const KeyRule& r) {
           return r.limits.empty() || limits_nothing(*r.key, strategy) ||
                  std::ranges::find(r.limits, value_of(*r.key, strategy)) != r.limits.end();
         }) &&
         std::ranges::all_of(conditionals_,
                             [&](const Conditional& c) { return meets(c, strategy); });
}

std::vector<std::string_view> Constraints::beyond_limits() const {
  std::vector<std::string_view> found;
  for (const KeyRule& r : keys_) {
    const auto is_beyond = [&](const Value& value) {
      return std::ranges::find(r.limits, value) == r.limits.end();
    };
    if (!r.limits.empty() && std::ranges::any_of(r.pinned, is_beyond)) found.push_back(r.key->name);
  }
  for (const Conditional& c : conditionals_) {
    const auto any_pinned = [&](const StrategyKey& key, auto is) {
      const KeyRule* r = find(key.name);
      return r != nullptr && std::ranges::any_of(r->pinned, is);
    };
    const auto is_beyond = [&](const Value& v) {
      return std::ranges::find(c.limits, v) == c.limits.end();
    };
    if (any_pinned(*c.other, [&](const Value& v) { return c.holds_for(v); }) &&
        any_pinned(*c.key, is_beyond))
      found.push_back(c.key->name);
  }
  return found;
}

bool Constraints::admits(const Strategy& strategy) const { return broken(strategy).empty(); }

bool Constraints::admits(std::string_view key, std::int64_t value) const {
  const KeyRule* r = find(key);
  return r == nullptr || r->admits({.number = value, .items = {}});
}

bool Constraints::admits(const Strategy& strategy,
                         std::initializer_list<std::string_view> keys) const {
  return std::ranges::none_of(keys, [&](std::string_view key) {
    const KeyRule* r = find(key);
    return r != nullptr && r->is_broken(strategy);
  });
}

bool Constraints::is_pinned(std::string_view key) const {
  const KeyRule* r = find(key);
  return r != nullptr && !r->pinned.empty();
}

std::vector<std::int64_t> Constraints::pinned(std::string_view key) const {
  std::vector<std::int64_t> values;
  if (const KeyRule* r = find(key); r != nullptr && !r->key->is_list())
    for (const Value& value : r->pinned) values.push_back(value.number);
  return values;
}

std::vector<models::ModuleSet> Constraints::pinned_modules() const {
  std::vector<models::ModuleSet> sets;
  if (const KeyRule* r = find("recompute_modules"))
    for (const Value& value : r->pinned) {
      Strategy s;
      put_list(*r->key, s, value.items);
      if (s.recompute_modules != 0) sets.push_back(s.recompute_modules);
    }
  return sets;
}

std::vector<std::string> Constraints::pinned_items(std::string_view key) const {
  const KeyRule* r = find(key);
  return r == nullptr || r->pinned.empty() ? std::vector<std::string>{} : r->pinned.front().items;
}

void Constraints::put(Strategy& strategy, std::initializer_list<std::string_view> keys) const {
  for (const KeyRule& r : keys_) {
    if (r.pinned.empty() || std::ranges::find(keys, r.key->name) == keys.end()) continue;
    if (r.key->is_list())
      put_list(*r.key, strategy, r.pinned.front().items);
    else
      r.key->put(strategy, r.pinned.front().number);
  }
}

}  // namespace planner
