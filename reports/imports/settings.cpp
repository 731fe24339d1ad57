#include "reports/imports/settings.hpp"

#include <algorithm>
#include <charconv>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/check.hpp"
#include "core/embedded.hpp"
#include "core/json.hpp"

std::span<const core::EmbeddedFile> reports_imports_data();

namespace reports::imports {
namespace {

const core::Json& table() {
  static const core::Json data = [] {
    const auto text = core::embedded_or_override(reports_imports_data(), "settings.json");
    PLANNER_CHECK(text.ok(), "settings.json is not embedded");
    return core::parse_json(*text, "reports/imports/settings.json").value();
  }();
  return data;
}

// "checkpoint.*" stands for every setting of a section.
bool names(std::string_view pattern, std::string_view key) {
  if (!pattern.ends_with('*')) return pattern == key;
  pattern.remove_suffix(1);
  return key.starts_with(pattern);
}

// The reason of the group that names the setting; null: none does.
const std::string* reason_in(const core::Json& groups, std::string_view key) {
  for (const core::Json& group : groups.items())
    for (const core::Json& pattern : group.at("settings").items())
      if (names(pattern.as_string(), key)) return &group.at("why").as_string();
  return nullptr;
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string Setting::value() const { return fmt::format("{}", fmt::join(words, " ")); }

void Settings::add(Setting setting) { all_.push_back(std::move(setting)); }

bool Settings::has(std::string_view key) const {
  return std::ranges::any_of(all_, [&](const Setting& s) { return s.key == key && s.sure; });
}

Setting* Settings::find(std::string_view key) {
  Setting* found = nullptr;
  for (Setting& s : all_)
    if (s.key == key && s.sure) found = &s;
  return found;
}

const Setting* Settings::take(std::string_view key, std::string_view as) {
  Setting* const last = find(key);
  if (last == nullptr) return nullptr;
  if (!last->known) {
    problem(*last, "a value that the file states",
            last->fix.empty() ? "say what the variable is with --var NAME=VALUE" : last->fix);
    last->taken = true;
    return nullptr;
  }
  for (Setting& s : all_)              // an earlier one is overruled
    if (s.key == key && s.sure) s.taken = true;
  std::erase_if(read_, [&](const SettingNote& note) { return note.key == key; });
  read_.push_back({std::string(key), last->value(), std::string(as)});
  if (!last->by_default.empty())
    defaults_.push_back(fmt::format("{} {}: nothing sets {}, so its default holds; --var {}=VALUE "
                                    "says otherwise",
                                    key, last->value(), last->by_default, last->by_default));
  return last;
}

void Settings::problem(const Setting& setting, std::string expected, std::string fix) {
  problems_.push_back({fmt::format("{} {}", setting.where, setting.key), std::move(expected),
                       setting.words.empty() ? "nothing" : fmt::format("\"{}\"", setting.value()),
                       std::move(fix)});
}

std::optional<std::int64_t> Settings::count(std::string_view key, std::string_view as,
                                            std::int64_t low) {
  const Setting* const setting = take(key, as);
  if (setting == nullptr) return std::nullopt;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const auto value = number_in<std::int64_t>(setting->value());
  if (value && *value >= low && *value <= kMost) return value;
  problem(*setting, fmt::format("a whole number from {} to {}", low, kMost));
  return std::nullopt;
}

std::optional<double> Settings::number(std::string_view key, std::string_view as) {
  const Setting* const setting = take(key, as);
  if (setting == nullptr) return std::nullopt;
  const auto value = number_in<double>(setting->value());
  if (value && *value == *value) return value;
  problem(*setting, "a number");
  return std::nullopt;
}

std::optional<std::string> Settings::text(std::string_view key, std::string_view as) {
  const Setting* const setting = take(key, as);
  if (setting == nullptr) return std::nullopt;
  if (!setting->words.empty()) return setting->value();
  problem(*setting, "a value");
  return std::nullopt;
}

std::optional<std::string> Settings::one_of(std::string_view key, std::string_view as,
                                            std::initializer_list<std::string_view> words) {
  const Setting* const setting = take(key, as);
  if (setting == nullptr) return std::nullopt;
  const std::string value = setting->value();
  if (std::ranges::find(words, value) != words.end()) return value;
  problem(*setting, fmt::format("one of {}", fmt::join(words, ", ")));
  return std::nullopt;
}

bool Settings::flag(std::string_view key, std::string_view as) {
  const Setting* const setting = take(key, as);
  if (setting == nullptr) return false;
  const std::string value = setting->value();
  if (value.empty() || value == "true" || value == "True") return true;
  if (value != "false" && value != "False") problem(*setting, "true or false");
  return false;
}

void Settings::became(std::string_view key, std::string as) {
  for (SettingNote& note : read_)
    if (note.key == key) note.text = as;
}

void Settings::leave(std::string_view key, std::string why) {
  Setting* const last = find(key);
  if (last == nullptr) return;
  for (Setting& s : all_)
    if (s.key == key && s.sure) s.taken = true;
  std::erase_if(read_, [&](const SettingNote& note) { return note.key == key; });
  unread_.push_back({std::string(key), last->value(), std::move(why)});
}

void Settings::leave_default(std::string key, std::string value, std::string why) {
  unread_.push_back({std::move(key), std::move(value), std::move(why)});
}

void Settings::sort_rest(std::string_view format) {
  const core::Json& known = table().at(format);
  for (const Setting& s : all_) {
    if (s.taken) continue;
    const auto said = [&](const SettingNote& note) { return note.key == s.key; };
    if (const std::string* why = reason_in(known.at("without_influence"), s.key)) {
      if (std::ranges::none_of(harmless_, said)) harmless_.push_back({s.key, s.value(), *why});
      continue;
    }
    const std::string* const may = reason_in(known.at("may_matter"), s.key);
    const std::string why =
        !s.sure ? "a condition of the script decides it, and nothing in the text decides that"
        : may != nullptr ? *may
                         : "this reader does not know it";
    if (std::ranges::none_of(unread_, said)) unread_.push_back({s.key, s.value(), why});
  }
}

}  // namespace reports::imports
