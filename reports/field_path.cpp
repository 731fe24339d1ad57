#include "reports/field_path.hpp"

#include <algorithm>
#include <charconv>
#include <span>

#include <fmt/format.h>

namespace reports {
namespace {

using core::Json;

using Parts = std::vector<std::string_view>;

bool is_leaf(const Json& value) { return !value.is_object() && !value.is_array(); }

std::optional<std::size_t> index_of(std::string_view part) {
  std::size_t index = 0;
  const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
  if (read.ec != std::errc() || read.ptr != part.data() + part.size()) return std::nullopt;
  return index;
}

const Json* child(const Json& value, std::string_view part) {
  if (!value.is_array()) return value.find(part);
  const auto index = index_of(part);
  return index && *index < value.size() ? &value.items()[*index] : nullptr;
}

std::string joined(std::span<const std::string_view> parts) {
  std::string text;
  for (std::string_view part : parts) text.append(text.empty() ? "" : ".").append(part);
  return text;
}

std::string entry_name(const Json& entry) {
  return entry.at("what").as_string() + '.' + entry.at("collective").as_string();
}

// Parts after "communication": an index and a field, or the names of an entry and a field. Of the
// field `library` an index and a field follow.
FieldPath follow_entry(const Json& entries, std::span<const std::string_view> parts) {
  FieldPath found;
  if (!entries.is_array() || parts.size() < 2) return found;
  const auto library = std::ranges::find(parts, "library");
  const auto own = library == parts.end() ? parts.size() - 1
                                          : static_cast<std::size_t>(library - parts.begin());
  const auto index = index_of(parts.front());
  const std::string name = joined(parts.first(own));
  for (std::size_t i = 0; i < entries.size() && found.entry == nullptr; ++i)
    if (index ? own == 1 && *index == i : entry_name(entries.items()[i]) == name)
      found.entry = &entries.items()[i];
  if (found.entry == nullptr) return found;
  found.value = found.entry;
  found.canonical = "communication." + entry_name(*found.entry);
  for (const std::string_view part : parts.subspan(own)) {
    found.value = child(*found.value, part);
    if (found.value == nullptr) return {};
    if (!index_of(part)) found.canonical.append(".").append(part);
  }
  return found;
}

// Terms of a stage are terms of memory, a rejected strategy is a strategy.
std::string without_place(const std::string& name) {
  constexpr std::string_view kStages = "memory.stages.", kRejected = "rejected.";
  if (name.starts_with(kStages) && name != "memory.stages.stage")
    return "memory." + name.substr(kStages.size());
  for (std::string_view list : {kRejected, std::string_view("other_machines.")})
    if (name.starts_with(list) && name.substr(list.size()).starts_with("strategy"))
      return name.substr(list.size());
  return name;
}

FieldPath follow_parts(const Json& from, std::span<const std::string_view> parts) {
  FieldPath found;
  found.value = &from;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "communication" && found.value->find(parts[i]) != nullptr &&
        found.value->find(parts[i])->is_array())
      return follow_entry(*found.value->find(parts[i]), parts.subspan(i + 1));
    found.value = child(*found.value, parts[i]);
    if (found.value == nullptr) return {};
    if (index_of(parts[i])) continue;
    found.canonical.append(found.canonical.empty() ? "" : ".").append(parts[i]);
  }
  found.canonical = without_place(found.canonical);
  return found;
}

// How many leading parts name a candidate of the plan, and which.
std::size_t candidate_parts(const Json& plan, const Parts& parts, const Json*& candidate) {
  std::size_t count = 0;
  if (parts.front() == "chosen") count = 1;
  if (parts.front() == "alternatives" || parts.front() == "pareto") count = 2;
  const bool of_others = parts.front() == "other_machines" || parts.front() == "other_frameworks";
  if (of_others && parts.size() > 2 && parts[2] == "candidate") count = 3;
  if (count == 0 || parts.size() <= count) return 0;
  candidate = &plan;
  for (std::size_t i = 0; i < count && candidate != nullptr; ++i)
    candidate = child(*candidate, parts[i]);
  return candidate != nullptr && candidate->is_object() ? count : 0;
}

// Lists of numbers or words, as a strategy's stages, are asked for whole.
bool is_plain(const Json& value) {
  return is_leaf(value) || (value.is_array() && std::ranges::all_of(value.items(), is_leaf));
}

void collect(const Json& value, const std::string& prefix, std::vector<std::string>& out) {
  for (const Json::Member& m : value.members()) {
    if (is_plain(m.value)) out.push_back(prefix + m.key);
    if (m.value.is_object() && m.key != "profile") collect(m.value, prefix + m.key + '.', out);
  }
}

}  // namespace

std::vector<std::string_view> split_parts(std::string_view text, char separator) {
  Parts parts;
  while (true) {
    const std::size_t at = text.find(separator);
    if (at != 0 && !text.empty()) parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<FieldPath> follow(const Json& plan, std::string_view path) {
  const Parts parts = split_parts(path, '.');
  if (parts.empty()) return std::nullopt;
  const Json* candidate = nullptr;
  std::span<const std::string_view> rest(parts);
  const std::size_t count = candidate_parts(plan, parts, candidate);
  if (count == 0) {
    candidate = plan.find("chosen");
    if (candidate != nullptr && candidate->find(parts.front()) == nullptr) candidate = nullptr;
  }
  rest = rest.subspan(count);
  FieldPath found = follow_parts(candidate == nullptr ? plan : *candidate, rest);
  if (found.value == nullptr) return std::nullopt;
  found.candidate = candidate;
  return found;
}

const Json* sibling(const Json& plan, const FieldPath& from, std::string_view name) {
  if (from.entry != nullptr && name.starts_with("communication."))
    return from.entry->find(name.substr(name.rfind('.') + 1));
  const Parts parts = split_parts(name, '.');
  if (from.candidate != nullptr)
    if (const Json* value = follow_parts(*from.candidate, parts).value) return value;
  const auto found = follow(plan, name);
  return found ? found->value : nullptr;
}

std::vector<std::string> askable_fields(const Json& plan) {
  std::vector<std::string> fields;
  if (const Json* chosen = plan.find("chosen"); chosen != nullptr && chosen->is_object()) {
    collect(*chosen, "", fields);
    if (const Json* entries = chosen->find("communication"); entries != nullptr)
      for (const Json& e : entries->items())
        for (const Json::Member& m : e.members())
          fields.push_back(fmt::format("communication.{}.{}", entry_name(e), m.key));
  }
  for (const Json::Member& m : plan.members())
    if (m.value.is_object() && m.key != "chosen") collect(m.value, m.key + '.', fields);
  return fields;
}

}  // namespace reports
