#include "hw_profiles/names.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/embedded.hpp"
#include "core/json.hpp"
#include "hw_profiles/load.hpp"

std::span<const core::EmbeddedFile> hw_profiles_data();

namespace hw_profiles {
namespace {

using Words = std::vector<std::string>;
using Spellings = std::vector<std::pair<std::string, std::string>>;

struct Entry {
  std::string id;
  Words words;
};

const core::Json& names_data() {
  static const core::Json data = [] {
    const auto text = core::embedded_or_override(hw_profiles_data(), "names.json");
    PLANNER_CHECK(text.ok(), "names.json is not embedded");
    return core::parse_json(*text, "hw_profiles/names.json").value();
  }();
  return data;
}

bool is_dropped(const std::string& word) {
  const auto& dropped = names_data().at("dropped").items();
  return std::ranges::any_of(dropped, [&](const core::Json& d) { return d.as_string() == word; });
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

// "80gb" and "80gib" are "80g", "sxm4" is "sxm".
std::string plain_word(std::string word) {
  for (std::string_view unit : {"gib", "gb"})
    if (word.ends_with(unit) &&
        is_number(std::string_view(word).substr(0, word.size() - unit.size())))
      return word.substr(0, word.size() - unit.size()) + 'g';
  if (word.starts_with("sxm") && word.size() == 4 && is_digit(word.back())) return "sxm";
  return word;
}

// Words in small letters: "NVIDIA GeForce RTX 3090 Ti" is rtx, 3090ti. "rtx3090ti" too.
Words words_of(std::string_view text) {
  Words words;
  std::string word;
  const auto end_word = [&] {
    if (word == "ti" || word == "super") {  // part of the number before: another card without it
      if (!words.empty()) words.back() += word;
    } else if (!word.empty() && !is_dropped(word)) {
      words.push_back(plain_word(word));
    }
    word.clear();
  };
  for (const char c : text) {
    if (word == "rtx" && is_digit(c)) end_word();
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == '.' && !word.empty())  // "p5.48xlarge"
      word += c;
    else
      end_word();
  }
  end_word();
  // "80 GB": the unit belongs to the number.
  for (std::size_t i = 1; i < words.size(); ++i)
    if ((words[i] == "gb" || words[i] == "gib") && is_number(words[i - 1])) {
      words[i - 1] += 'g';
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i));
    }
  return words;
}

bool has_all(const Words& all, const Words& some) {
  return std::ranges::all_of(
      some, [&](const std::string& word) { return std::ranges::find(all, word) != all.end(); });
}

// What the driver shows, rounded, and the size on the box: ECC keeps up to a sixteenth.
Words memory_words(core::Bytes memory) {
  const double gib = static_cast<double>(memory.value()) / 0x1p30;
  const double on_the_box = 8 * std::ceil(gib / 8);
  Words words{fmt::format("{:.0f}g", gib)};
  if (on_the_box < 1.07 * gib) words.push_back(fmt::format("{:.0f}g", on_the_box));
  return words;
}

std::vector<Entry> gpu_entries() {
  std::vector<Entry> entries;
  for (const std::string& id : profile_names()) {
    const Profile profile = find_profile(id).value();
    Entry entry{id, words_of(id)};
    for (const Words& more : {words_of(profile.gpu.name), memory_words(profile.gpu.memory)})
      entry.words.insert(entry.words.end(), more.begin(), more.end());
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<Entry> node_entries() {
  std::vector<Entry> entries;
  for (const std::string& id : node_names()) entries.push_back({id, words_of(id)});
  return entries;
}

Spellings spellings(std::string_view kind) {
  Spellings all;
  for (const core::Json::Member& m : names_data().at(kind).members())
    all.emplace_back(m.key, m.value.as_string());
  return all;
}

// Every word but no other, in any order.
bool same_words(Words a, Words b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

core::Result<Meant> meant_of(std::string_view typed, std::string_view where,
                             const std::vector<Entry>& entries, const Spellings& spelled,
                             std::string_view kind) {
  const Words words = words_of(typed);
  for (const auto& [spelling, id] : spelled)
    if (same_words(words_of(spelling), words)) return Meant{id};
  std::vector<std::string> fitting, all;
  for (const Entry& e : entries) {
    all.push_back(e.id);
    if (!words.empty() && has_all(e.words, words)) fitting.push_back(e.id);
    if (same_words(words_of(e.id), words)) return Meant{e.id};
  }
  if (fitting.empty())
    return unknown_name(std::string(typed), std::move(all), kind, std::string(where));
  if (fitting.size() == 1) return Meant{fitting.front()};
  for (const core::Json::Member& usual : names_data().at("usual").members()) {
    if (std::erase(fitting, usual.key) == 0) continue;
    return Meant{usual.key,
                 fmt::format("{} is taken to mean {}, {}; it could also be {}", typed, usual.key,
                             usual.value.as_string(), fmt::join(fitting, ", "))};
  }
  return core::Problem{std::string(where), fmt::format("a name that means one {}", kind),
                       fmt::format("\"{}\"", typed),
                       fmt::format("write one of {}", fmt::join(fitting, ", "))};
}

bool is_id_or_path(std::string_view typed, const std::vector<std::string>& ids) {
  return is_path(typed) || std::ranges::find(ids, typed) != ids.end();
}

}  // namespace

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".json");
}

core::Result<Meant> gpu_meant(std::string_view typed, std::string_view where) {
  if (is_id_or_path(typed, profile_names())) return Meant{std::string(typed)};
  return meant_of(typed, where, gpu_entries(), gpu_spellings(), "GPU");
}

core::Result<Meant> node_meant(std::string_view typed, std::string_view where) {
  if (is_id_or_path(typed, node_names())) return Meant{std::string(typed)};
  return meant_of(typed, where, node_entries(), node_spellings(), "node");
}

// Of one shipped: its own spelling, whatever the letter case and the joint.
Meant framework_meant(std::string_view typed) {
  std::string plain(typed);
  for (char& c : plain)
    c = c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (is_id_or_path(plain, framework_names())) return {is_path(typed) ? std::string(typed) : plain};
  for (const auto& [known, id] : framework_spellings())
    if (known == plain) return {id, fmt::format("{} is predicted as {}", typed, id)};
  return {std::string(typed)};
}

Spellings framework_spellings() { return spellings("frameworks"); }
Spellings gpu_spellings() { return spellings("gpus"); }
Spellings node_spellings() { return spellings("nodes"); }

std::vector<std::string> usual_gpus() {
  std::vector<std::string> ids;
  for (const core::Json::Member& m : names_data().at("usual").members()) ids.push_back(m.key);
  return ids;
}

// "h10" is far from "h100-sxm-80g" in edits, yet meant.
core::Problem unknown_name(const std::string& wanted, std::vector<std::string> names,
                           std::string_view kind, std::string where) {
  const std::size_t at_least = std::string_view("l4").size();
  const auto move_up = [&](auto first, auto holds) {
    return wanted.size() < at_least ? first : std::stable_partition(first, names.end(), holds);
  };
  const auto begin_so =
      move_up(names.begin(), [&](const std::string& n) { return n.starts_with(wanted); });
  const auto hold =
      move_up(begin_so, [&](const std::string& n) { return n.find(wanted) != n.npos; });
  const auto meant = begin_so == names.begin() ? hold : begin_so;
  const std::string near =
      meant == names.begin() ? std::string(core::nearest(wanted, {names.begin(), names.end()}))
                             : fmt::format("{}", fmt::join(names.begin(), meant, " or "));
  return {std::move(where),
          fmt::format("one of {}, or the path of a {} file", fmt::join(names, ", "), kind),
          '"' + wanted + '"', near.empty() ? "" : "did you mean " + near + "?"};
}

}  // namespace hw_profiles
