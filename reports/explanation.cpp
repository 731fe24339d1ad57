#include "reports/explanation.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "planner/strategy/keys.hpp"
#include "reports/facts.hpp"
#include "reports/field_path.hpp"
#include "reports/split_text.hpp"

namespace reports {
namespace {

using core::Json;
using planner::Plan;

constexpr std::string_view kOwnValue = "definition of this tool";

bool matches(std::string_view pattern, std::string_view field) {
  std::string one_part(field);  // the collective of a server counts as one part
  if (const std::size_t at = one_part.find(".server."); at != std::string::npos) one_part[at] = ':';
  const auto wanted = split_parts(pattern, '.'), found = split_parts(one_part, '.');
  if (!wanted.empty() && wanted.back() == "**" && found.size() >= wanted.size())
    return std::ranges::equal(std::span(wanted).first(wanted.size() - 1),
                              std::span(found).first(wanted.size() - 1));
  return std::ranges::equal(wanted, found, [](std::string_view want, std::string_view part) {
    return want == "*" || want == part;
  });
}

bool is_bytes(std::string_view field) {
  return field.ends_with("_bytes") || field.ends_with("wire_bytes_per_rank") ||
         (field.starts_with("memory.") && field != "memory.rank" &&
          field != "memory.stages.stage") ||
         field.starts_with("uncertainty.device");
}

bool is_seconds(std::string_view field) {
  return field.starts_with("time.") || field.ends_with("seconds") ||
         field.starts_with("uncertainty.step");
}

std::string value_text(const Json& value, std::string_view field) {
  if (value.is_int64() && is_bytes(field))
    return fmt::format("{} ({} bytes)", core::to_text(core::Bytes(value.as_int64())),
                       value.as_int64());
  if (value.is_double() && is_seconds(field))
    return core::to_text(core::Seconds(value.as_double()));
  return value.is_string() ? value.as_string() : core::dump(value, 0);
}

// "Psi=model.parameters" is a symbol and its field; "job.recipe" a field alone.
void add_inputs(Explanation& e, const Json& plan, const FieldPath& from, std::string_view inputs) {
  for (std::string_view input : split_parts(inputs, ' ')) {
    const std::size_t equal = input.find('=');
    const std::string_view field = equal == std::string_view::npos ? input
                                                                   : input.substr(equal + 1);
    std::string name(field);
    const bool of_profile = field.starts_with("gpu.") || field.starts_with("node.");
    const Json* value = sibling(plan, from, of_profile ? "cluster.profile." + name + ".0" : name);
    if (value == nullptr) continue;
    if (from.entry != nullptr && field.starts_with("communication.*"))  // of the same entry
      name = from.canonical.substr(0, from.canonical.rfind('.')) +
             std::string(field.substr(field.rfind('.')));
    const std::string text = value_text(*value, name);
    if (equal == std::string_view::npos)
      e.inputs.emplace_back(std::move(name), text);
    else
      e.inputs.emplace_back(fmt::format("{} = {}", input.substr(0, equal), name), text);
  }
}

Explanation explain_value(const Json& plan, const FieldPath& path, std::string_view field) {
  Explanation e{std::string(field), value_text(*path.value, path.canonical),
                "a value of the plan itself", std::string(kOwnValue), {}, *path.value};
  const auto row = std::ranges::find_if(
      formulas(), [&](const Formula& f) { return matches(f.field, path.canonical); });
  if (row == formulas().end()) return e;
  e.formula = row->formula;
  e.source = row->source;
  constexpr std::string_view kStrategy = "strategy.";
  if (path.canonical.starts_with(kStrategy))
    if (const auto* key = planner::find_strategy_key(path.canonical.substr(kStrategy.size())))
      e.formula += ": " + planner::allowed_values(*key);
  add_inputs(e, plan, path, row->inputs);
  return e;
}

// A group: what is in it.
Explanation explain_group(const FieldPath& path, std::string_view field) {
  Explanation e{std::string(field), "", "a group of fields; ask for one of them",
                std::string(kOwnValue), {}, *path.value};
  for (const Json::Member& m : path.value->members())
    if (!m.value.is_object() && m.value.size() == 0)
      e.inputs.emplace_back(fmt::format("{}.{}", field, m.key),
                            value_text(m.value, fmt::format("{}.{}", path.canonical, m.key)));
  e.value = fmt::format("{} fields", path.value->size());
  return e;
}

bool is_whole(double value) { return std::abs(value) < 0x1p53 && std::floor(value) == value; }

std::string fact_text(double value, std::string_view unit) {
  if (unit == "B") return core::to_text(core::Bytes(std::llround(value)));
  if (unit == "s") return core::to_text(core::Seconds(value));
  const std::string number = is_whole(value) ? fmt::format("{:.0f}", value)
                                             : fmt::format("{:.6g}", value);
  return fmt::format("{}{}{}", number, unit.empty() ? "" : " ", unit);
}

Json exact_number(double value) {
  if (!std::isfinite(value)) return Json();
  return is_whole(value) ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Explanation explain_fact(const Plan& plan, const Json& json, const Fact& fact, double servers) {
  const double value = fact.value(fact_values(plan, servers));
  Explanation e{
      std::string(fact.name),
      std::isfinite(value) ? fact_text(value, fact.unit) : std::string("not defined here"),
      std::string(fact.formula),
      std::string(fact.source),
      {},
      exact_number(value),
      std::string(fact.claim)};
  add_inputs(e, json, {}, fact.inputs);
  if (fact.inputs.find("M=servers") != std::string_view::npos)
    e.inputs.emplace_back("M = servers", fmt::format("{:.0f}", servers));
  return e;
}

// "rules_of_thumb.2.value", or the name of the rule.
const planner::RuleOfThumb* find_rule(const Plan& plan, std::string_view name) {
  for (std::size_t i = 0; i < plan.rules_of_thumb.size(); ++i)
    if (plan.rules_of_thumb[i].name == name || fmt::format("rules_of_thumb.{}.value", i) == name)
      return &plan.rules_of_thumb[i];
  return nullptr;
}

// "gpu.usable" or "cluster.profile.gpu.usable".
const hw_profiles::Sourced* find_number(const Plan& plan, std::string_view field) {
  constexpr std::string_view kProfile = "cluster.profile.";
  if (field.starts_with(kProfile)) field.remove_prefix(kProfile.size());
  return plan.profile.lookup(field);
}

core::Problem unknown_field(const Plan& plan, const Json& json, std::string_view field) {
  std::vector<std::string> known = askable_fields(json);
  for (const hw_profiles::Sourced& s : plan.profile.sources) known.push_back(s.field);
  for (const planner::RuleOfThumb& r : plan.rules_of_thumb) known.push_back(r.name);
  for (const Fact& fact : facts()) known.emplace_back(fact.name);
  core::Problem problem{"explain",
                        "a field of the plan, as memory.weights, a law or fact (C1 to C10, M1 to "
                        "M16), `laws` or `facts`",
                        fmt::format("\"{}\"", field), "see the keys of planner --json"};
  const std::vector<std::string_view> names(known.begin(), known.end());
  std::string near(core::nearest(field, names));
  std::vector<std::string_view> tails;  // "weights" for "memory.weights"
  for (std::string_view name : names) tails.push_back(name.substr(name.rfind('.') + 1));
  const auto tail = std::ranges::find(tails, core::nearest(field, tails));
  if (near.empty() && tail != tails.end())
    near = known[static_cast<std::size_t>(tail - tails.begin())];
  if (!near.empty()) problem.fix = fmt::format("did you mean {}?", near);
  return problem;
}

}  // namespace

core::Result<Explanation> explain(const Plan& plan, std::string_view field, double servers) {
  if (const hw_profiles::Sourced* s = find_number(plan, field))
    return Explanation{s->field, s->text, "a number of the profile of " + plan.profile.gpu.id,
                       s->source, {}, s->text};
  if (const planner::RuleOfThumb* r = find_rule(plan, field))
    return Explanation{r->name, fmt::format("{} {}", number_text(r->value), r->unit), r->formula,
                       r->source,
                       {}, r->value};
  constexpr std::string_view kSplits = "splits.";
  if (field.starts_with(kSplits)) return explain_split(plan, field.substr(kSplits.size()));
  const core::Result<Json> json = core::parse_json(planner::to_json_text(plan), "plan");
  PLANNER_CHECK(json.ok(), "a plan's own text does not parse");
  if (const Fact* fact = find_fact(field)) return explain_fact(plan, *json, *fact, servers);
  const std::optional<FieldPath> path = follow(*json, field);
  if (!path) return unknown_field(plan, *json, field);
  if (path->value->is_object()) return explain_group(*path, field);
  Explanation e = explain_value(*json, *path, field);
  auto parts = memory_breakdown(plan, field);
  if (parts.ok()) e.parts = std::move(parts).value();
  else e.no_parts = core::to_text(parts.problems().front());
  return e;
}

std::string to_json_text(const Explanation& e) {
  Json inputs = Json::object();
  for (const auto& [name, value] : e.inputs) inputs.set(name, value);
  Json root = Json::object({{"schema", "explain/1"},
                            {"field", e.field},
                            {"value", e.exact},
                            {"text", e.value},
                            {"claim", e.claim.empty() ? Json() : Json(e.claim)},
                            {"formula", e.formula},
                            {"inputs", inputs},
                            {"source", e.source}});
  root.set("parts", e.parts ? breakdown_json(*e.parts) : Json());
  root.set("no_parts", e.no_parts.empty() ? Json() : Json(e.no_parts));
  return core::dump(root) + '\n';
}

std::string explanation_text(const Explanation& e, TextStyle style) {
  std::string text = painted(fmt::format("{} = {}", e.field, e.value), Ink::heading, style) + '\n';
  const auto labelled = [&](std::string_view label, std::string_view body) {
    constexpr int kIndent = 11;
    text += fmt::format("  {:<9}", label) + wrapped(body, kIndent, kIndent, style).substr(kIndent);
  };
  if (!e.claim.empty()) labelled("fact", e.claim);
  labelled("formula", e.formula);
  for (const auto& [name, value] : e.inputs) text += wrapped(name + " = " + value, 11, 13, style);
  labelled("source", e.source);
  if (!e.no_parts.empty()) labelled("parts", e.no_parts);
  if (e.parts) text += '\n' + breakdown_text(*e.parts, style);
  return text;
}

}  // namespace reports
