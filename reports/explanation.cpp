#include "reports/explanation.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "reports/text.hpp"

namespace reports {
namespace {

using core::Json;
using planner::Plan;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    if (at != 0) parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// An entry of communication is addressed as communication.WHAT.COLLECTIVE, where the collective of
// a server has a dot of its own.
const Json* find_entry(const Json& entries, std::string_view path, std::string_view& field) {
  for (const Json& e : entries.items()) {
    const std::string prefix =
        e.at("what").as_string() + '.' + e.at("collective").as_string() + '.';
    if (!path.starts_with(prefix)) continue;
    field = path.substr(prefix.size());
    return &e;
  }
  return nullptr;
}

const Json* follow(const Json& from, std::string_view path) {
  constexpr std::string_view kCommunication = "communication.";
  if (path.starts_with(kCommunication)) {
    const Json* entries = from.find("communication");
    std::string_view field;
    const Json* entry = entries == nullptr || !entries->is_array()
                            ? nullptr
                            : find_entry(*entries, path.substr(kCommunication.size()), field);
    return entry == nullptr ? nullptr : entry->find(field);
  }
  const Json* value = &from;
  for (std::string_view part : split(path, '.'))
    if (value = value->find(part); value == nullptr) return nullptr;
  return value;
}

// A field of the chosen candidate, else of the plan.
const Json* find_value(const Json& plan, std::string_view path) {
  const Json* chosen = plan.find("chosen");
  if (chosen != nullptr && chosen->is_object())
    if (const Json* value = follow(*chosen, path)) return value;
  return follow(plan, path);
}

bool is_leaf(const Json& value) { return !value.is_object() && !value.is_array(); }

// Dotted names of all leaves below an object: what may be asked for.
void collect(const Json& value, const std::string& prefix, std::vector<std::string>& out) {
  for (const Json::Member& m : value.members()) {
    if (is_leaf(m.value)) out.push_back(prefix + m.key);
    if (m.value.is_object() && m.key != "spec" && m.key != "profile")
      collect(m.value, prefix + m.key + '.', out);
  }
}

void collect_entries(const Json& candidate, std::vector<std::string>& out) {
  for (const Json& e : candidate.at("communication").items())
    for (std::string_view field : {"count", "payload_bytes", "wire_bytes_per_rank", "seconds"})
      out.push_back(fmt::format("communication.{}.{}.{}", e.at("what").as_string(),
                                e.at("collective").as_string(), field));
}

std::vector<std::string> known_fields(const Plan& plan, const Json& json) {
  std::vector<std::string> fields;
  if (plan.chosen) {
    collect(json.at("chosen"), "", fields);
    collect_entries(json.at("chosen"), fields);
  }
  for (std::string_view part : {"model", "cluster", "job", "search"})
    collect(json.at(part), std::string(part) + '.', fields);
  for (const hw_profiles::Sourced& s : plan.profile.sources) fields.push_back(s.field);
  for (const planner::RuleOfThumb& r : plan.rules_of_thumb) fields.push_back(r.name);
  return fields;
}

bool matches(std::string_view pattern, std::string_view field) {
  std::string one_part(field);  // the collective of a server counts as one part
  if (const std::size_t at = one_part.find(".server."); at != std::string::npos) one_part[at] = ':';
  const auto wanted = split(pattern, '.'), found = split(one_part, '.');
  return std::ranges::equal(wanted, found, [](std::string_view want, std::string_view part) {
    return want == "*" || want == part;
  });
}

bool is_bytes(std::string_view field) {
  return field.ends_with("_bytes") || field.ends_with("wire_bytes_per_rank") ||
         (field.starts_with("memory.") && field != "memory.rank");
}

std::string value_text(const Json& value, std::string_view field) {
  if (value.is_int64() && is_bytes(field))
    return fmt::format("{} ({} bytes)", core::to_text(core::Bytes(value.as_int64())),
                       value.as_int64());
  const bool seconds = field.starts_with("time.") || field.ends_with("seconds");
  if (value.is_double() && seconds) return core::to_text(core::Seconds(value.as_double()));
  return value.is_string() ? value.as_string() : core::dump(value, 0);
}

// The field with the parts that '*' stood for: inputs of an entry are of the same entry.
std::string same_entry(std::string_view input, std::string_view field) {
  if (input.find('*') == std::string_view::npos) return std::string(input);
  const std::string_view entry = field.substr(0, field.rfind('.'));
  return fmt::format("{}{}", entry, input.substr(input.rfind('.')));
}

Explanation explained(const Formula& row, const Json& plan, std::string_view field) {
  Explanation e{std::string(field), value_text(*find_value(plan, field), field),
                std::string(row.formula), std::string(row.source), {}};
  for (std::string_view input : split(row.inputs, ' ')) {
    const std::string name = same_entry(input, field);
    if (const Json* value = find_value(plan, name))
      e.inputs.emplace_back(name, value_text(*value, name));
  }
  return e;
}

const planner::RuleOfThumb* find_rule(const Plan& plan, std::string_view name) {
  const auto it = std::ranges::find(plan.rules_of_thumb, name, &planner::RuleOfThumb::name);
  return it == plan.rules_of_thumb.end() ? nullptr : &*it;
}

core::Problem unknown_field(const Plan& plan, const Json& json, std::string_view field) {
  const std::vector<std::string> known = known_fields(plan, json);
  std::vector<std::string_view> names(known.begin(), known.end());
  for (const std::string& name : known)  // "weights" for "memory.weights"
    if (name.ends_with('.' + std::string(field)))
      return {"explain", "a field of the plan", fmt::format("\"{}\"", field),
              fmt::format("did you mean {}?", name)};
  const std::string_view near = core::nearest(field, names);
  return {"explain", "a field of the plan, as memory.weights, or `laws`",
          fmt::format("\"{}\"", field),
          near.empty() ? std::string("see the keys of planner --json")
                       : fmt::format("did you mean {}?", near)};
}

}  // namespace

core::Result<Explanation> explain(const Plan& plan, std::string_view field) {
  if (const hw_profiles::Sourced* s = plan.profile.lookup(field))
    return Explanation{s->field, s->text, "a number of the profile of " + plan.profile.gpu.id,
                       s->source, {}};
  if (const planner::RuleOfThumb* r = find_rule(plan, field))
    return Explanation{r->name, fmt::format("{:.6g} {}", r->value, r->unit), r->formula, r->source,
                       {}};
  const core::Result<Json> json = core::parse_json(planner::to_json_text(plan), "plan");
  PLANNER_CHECK(json.ok(), "a plan's own text does not parse");
  const Json* value = find_value(*json, field);
  if (value == nullptr || value->is_object()) return unknown_field(plan, *json, field);
  for (const Formula& row : formulas())
    if (matches(row.field, field)) return explained(row, *json, field);
  return Explanation{std::string(field), value_text(*value, field), "a value of the plan itself",
                     "definition of this tool", {}};
}

std::string to_json_text(const Explanation& e) {
  Json inputs = Json::object();
  for (const auto& [name, value] : e.inputs) inputs.set(name, value);
  return core::dump(Json::object({{"schema", "explain/1"},
                                  {"field", e.field},
                                  {"value", e.value},
                                  {"formula", e.formula},
                                  {"inputs", inputs},
                                  {"source", e.source}})) +
         '\n';
}

std::string explanation_text(const Explanation& e) {
  std::string text = fmt::format("{} = {}\n", e.field, e.value);
  text += wrapped("formula  " + e.formula, 2, 11);
  for (const auto& [name, value] : e.inputs) text += wrapped(name + " = " + value, 11, 13);
  return text + wrapped("source   " + e.source, 2, 11);
}

}  // namespace reports
