// What was read of a setup, for people and as JSON.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/untrusted.hpp"
#include "models/spec_file.hpp"
#include "reports/imports/imports.hpp"

namespace reports::imports {
namespace {

using core::Json;

constexpr std::size_t kLongestValue = 40;  // characters of a value that a table shows

std::string shown_value(const std::string& value) {
  const std::string text = core::visible(value);
  if (text.size() <= kLongestValue) return text;
  std::size_t end = kLongestValue - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

std::string table_text(std::string_view title, std::string_view last,
                       const std::vector<SettingNote>& notes, TextStyle style) {
  if (notes.empty()) return "";
  Table table({{"setting", Align::left}, {"value", Align::left}, {std::string(last), Align::left}});
  for (const SettingNote& note : notes)
    table.add({core::visible(note.key), shown_value(note.value), core::visible(note.text)});
  return fmt::format("\n{}\n{}", painted(title, Ink::heading, style), table.text(style));
}

// Settings by their reason, in the order in which they come first.
std::string harmless_text(const std::vector<SettingNote>& notes, TextStyle style) {
  if (notes.empty()) return "";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const SettingNote& note : notes) {
    const auto row = std::ranges::find_if(
        rows, [&](const auto& pair) { return pair.first == note.text; });
    if (row == rows.end()) rows.emplace_back(note.text, core::visible(note.key));
    else row->second += ", " + core::visible(note.key);
  }
  constexpr std::string_view kTitle = "Without influence on memory, communication and time";
  std::string text = '\n' + painted(kTitle, Ink::heading, style) + '\n';
  for (const auto& [why, keys] : rows)
    text += wrapped(fmt::format("{}: {}", why, keys), 2, 4, style);
  return text;
}

Json notes_json(const std::vector<SettingNote>& notes, std::string_view last) {
  Json rows = Json::array();
  for (const SettingNote& note : notes)
    rows.push_back(Json::object({{"setting", note.key}, {"value", note.value}})
                       .set(last, note.text));
  return rows;
}

}  // namespace

// "llama3-8b on 8 GPUs: data=8 tensor=1 ...".
static std::string headline(const Setup& setup) {
  return core::visible(fmt::format(
      "{}{}: {}", setup.spec ? "A model without a known name" : setup.model,
      setup.gpus ? fmt::format(" on {} GPUs", *setup.gpus) : std::string(),
      fmt::join(setup.pins, " ")));
}

std::string setup_text(const Setup& setup, TextStyle style) {
  std::string text = wrapped(headline(setup), 0, 2, style);
  text += wrapped(
      fmt::format("{}: {} settings read, {} without influence on memory, communication or time, {} "
                  "not read that may matter.",
                  fmt::join(setup.formats, ", "), setup.read.size(),
                  setup.without_influence.size(), setup.not_read.size()),
      0, 0, style);
  for (const std::string& note : setup.notes) text += wrapped(core::visible(note), 0, 2, style);
  text += table_text("Not read, may matter", "why", setup.not_read, style);
  text += table_text("Read", "becomes", setup.read, style);
  text += harmless_text(setup.without_influence, style);
  return text;
}

Json setup_json(const Setup& setup) {
  Json options = Json::object();
  for (const auto& [option, value] : setup.options) options.set(option.substr(2), value);
  Json root = Json::object({{"schema", "import/1"},
                            {"formats", Json::array_of(setup.formats)},
                            {"model", setup.model},
                            {"spec", nullptr},
                            {"gpus", setup.gpus},
                            {"options", std::move(options)},
                            {"pins", Json::array_of(setup.pins)},
                            {"read", notes_json(setup.read, "becomes")},
                            {"not_read", notes_json(setup.not_read, "why")},
                            {"without_influence", notes_json(setup.without_influence, "why")},
                            {"notes", Json::array_of(setup.notes)}});
  if (setup.spec)
    root.set("spec", core::parse_json(models::spec_to_json(*setup.spec), "spec").value());
  return root;
}

}  // namespace reports::imports
