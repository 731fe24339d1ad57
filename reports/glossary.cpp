#include "reports/glossary.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/embedded.hpp"
#include "core/json.hpp"
#include "planner/strategy/keys.hpp"
#include "reports/glossary_pictures.hpp"

std::span<const core::EmbeddedFile> reports_data();

namespace reports {
namespace {

using Entries = std::vector<const GlossaryEntry*>;

constexpr std::string_view kOtherNames = "other names";

core::Json glossary_data() {
  const auto text = core::embedded_or_override(reports_data(), "glossary.json");
  PLANNER_CHECK(text.ok(), "glossary.json is not embedded");
  return core::parse_json(*text, "reports/glossary.json").value();
}

std::string text_of(const core::Json& entry, std::string_view key) {
  const core::Json* value = entry.find(key);
  return value == nullptr ? std::string() : value->as_string();
}

std::vector<GlossaryEntry> read_entries() {
  std::vector<GlossaryEntry> entries;
  const core::Json data = glossary_data();
  for (const core::Json::Member& kind : data.members()) {
    if (kind.key == kOtherNames) continue;
    for (const core::Json::Member& m : kind.value.members())
      entries.push_back({kind.key, m.key, text_of(m.value, "text"), text_of(m.value, "formula"),
                         text_of(m.value, "source")});
  }
  return entries;
}

// "--Global-Batch" is global_batch.
std::string plain_word(std::string_view typed) {
  while (typed.starts_with('-')) typed.remove_prefix(1);
  std::string word(typed);
  for (char& c : word)
    c = c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

void add_all(const std::string& word, Entries& found) {
  for (const GlossaryEntry& e : glossary())
    if (e.word == word) found.push_back(&e);
}

// "sharding=3": the value of a key; of a key without an entry for each value, the key.
void add_value(std::string_view key_typed, std::string_view value_typed, Entries& found) {
  const planner::StrategyKey* key = planner::strategy_key_meant(key_typed);
  const std::string name = key == nullptr ? plain_word(key_typed) : std::string(key->name);
  std::string value = key == nullptr ? plain_word(value_typed)
                                     : planner::value_meant(*key, value_typed);
  value = value.substr(0, value.find('('));  // "every_k(2)"
  if (const GlossaryEntry* e = find_entry(name, value)) found.push_back(e);
  else add_all(name, found);
}

void add_other_names(const std::string& word, Entries& found) {
  static const core::Json names = glossary_data().at(kOtherNames);
  if (const planner::StrategyKey* key = planner::strategy_key_meant(word))
    add_all(std::string(key->name), found);
  for (const planner::OtherValueName& other : planner::other_value_names())
    if (found.empty() && other.name == word && word.size() > 2 && word != "true" && word != "false")
      add_value(other.key, word, found);
  const core::Json* other = names.find(word);
  if (found.empty() && other != nullptr) add_all(other->as_string(), found);
}

core::Problem unknown_word(std::string_view typed, const std::string& word) {
  std::vector<std::string_view> words;
  for (const GlossaryEntry& e : glossary()) words.push_back(e.word);
  const std::string_view near = core::nearest(word, words);
  return {"explain", "a word that the tool prints or takes, or a field of a plan",
          fmt::format("\"{}\"", typed),
          near.empty() ? std::string("`planner explain words` lists them")
                       : fmt::format("did you mean {}? `planner explain words` lists all", near)};
}

std::string entry_text(const GlossaryEntry& e, TextStyle style) {
  std::string text = painted(fmt::format("{} ({})", e.word, e.kind), Ink::heading, style) + '\n';
  text += wrapped(e.text, 2, 2, style);
  if (!e.formula.empty()) text += wrapped("formula: " + e.formula, 2, 4, style);
  if (e.kind == "strategy key") {
    const planner::StrategyKey& key = *planner::find_strategy_key(e.word);
    text += wrapped("values: " + planner::allowed_values(key), 2, 4, style);
    std::string names;
    for (const planner::OtherKeyName& other : planner::other_key_names())
      if (other.key == e.word) names += fmt::format("{}{}", names.empty() ? "" : ", ", other.name);
    if (!names.empty()) text += wrapped("also called: " + names, 2, 4, style);
  }
  const std::string picture = picture_of(e.kind, e.word);
  if (!picture.empty()) text += '\n' + picture + '\n';
  text += wrapped("source: " + e.source, 2, 4, style);
  return text;
}

}  // namespace

std::span<const GlossaryEntry> glossary() {
  static const std::vector<GlossaryEntry> entries = read_entries();
  return entries;
}

const GlossaryEntry* find_entry(std::string_view kind, std::string_view word) {
  for (const GlossaryEntry& e : glossary())
    if (e.kind == kind && e.word == word) return &e;
  return nullptr;
}

core::Result<Entries> look_up(std::string_view typed) {
  Entries found;
  const std::size_t equals = typed.find('=');
  const std::string word = plain_word(typed);
  if (equals != std::string_view::npos)
    add_value(typed.substr(0, equals), typed.substr(equals + 1), found);
  add_all(word, found);
  if (found.empty()) add_other_names(word, found);
  const std::size_t dot = word.rfind('.');
  if (found.empty() && dot != std::string::npos) {
    const std::string_view group = std::string_view(word).substr(0, dot);
    const bool named = find_entry(group, word.substr(dot + 1)) != nullptr;
    const std::string kind = named ? std::string(group) : fmt::format("{} term", group);
    if (const GlossaryEntry* e = find_entry(kind, word.substr(dot + 1))) found.push_back(e);
    else if (group == "strategy" || group == "job" || group == "throughput")
      add_all(word.substr(dot + 1), found);
  }
  if (found.empty()) return unknown_word(typed, word);
  return found;
}

std::string glossary_text(const Entries& entries, TextStyle style) {
  std::string text;
  for (const GlossaryEntry* e : entries) {
    if (!text.empty()) text += '\n';
    text += entry_text(*e, style);
  }
  return text;
}

std::string glossary_json(const Entries& entries) {
  core::Json words = core::Json::array();
  for (const GlossaryEntry* e : entries) {
    const std::string picture = picture_of(e->kind, e->word);
    words.push_back(core::Json::object(
        {{"word", e->word},
         {"kind", e->kind},
         {"text", e->text},
         {"formula", e->formula.empty() ? core::Json() : core::Json(e->formula)},
         {"picture", picture.empty() ? core::Json() : core::Json(picture)},
         {"source", e->source}}));
  }
  return core::dump(core::Json::object({{"schema", "words/1"}, {"words", words}})) + '\n';
}

}  // namespace reports
