// TOML 1.0 (toml.io), as far as job files go.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/imports/structured.hpp"

namespace reports::imports {
namespace {

using core::Json;

constexpr int kMostTomlDepth = 16;

class TomlParser {
 public:
  TomlParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  core::Result<Json> all() {
    while (skip_blank(), more())
      if (!line()) return problem_;
    return Json::from_members(std::move(members_));
  }

 private:
  bool more() const { return at_ < text_.size(); }
  char next() const { return more() ? text_[at_] : '\0'; }
  void step() {
    if (next() == '\n') ++line_;
    ++at_;
  }
  void skip_spaces() {
    while (next() == ' ' || next() == '\t' || next() == '\r') ++at_;
  }
  void skip_comment() {
    if (next() == '#')
      while (more() && next() != '\n') ++at_;
  }
  // Blanks, comments and ends of lines.
  void skip_blank() {
    for (;;) {
      skip_spaces();
      skip_comment();
      if (next() != '\n') return;
      step();
    }
  }
  bool fails(std::string expected, std::string fix = "") {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    problem_ = {fmt::format("{}:{}", name_, line_), std::move(expected),
                more() ? fmt::format("\"{}\"", text_.substr(at_, std::min<std::size_t>(
                                                                     end - at_, 40)))
                       : "the end of the file",
                std::move(fix)};
    return false;
  }

  bool line() {
    if (next() == '[') return header();
    std::vector<std::string> key;
    if (!path(key)) return false;
    if (next() != '=') return fails("= behind a key");
    ++at_;
    skip_spaces();
    const int where = line_;
    Json value;
    if (!this->value(value, 0)) return false;
    value.set_place(where, 1);
    std::vector<std::string> whole = section_;
    whole.insert(whole.end(), key.begin(), key.end());
    std::string name = fmt::format("{}", fmt::join(whole, "."));
    if (!names_.insert(name).second) return fails(fmt::format("{} once", name));
    members_.push_back({std::move(name), std::move(value)});
    return ends();
  }

  bool header() {
    ++at_;
    if (next() == '[') return fails("a table", "arrays of tables are not read");
    section_.clear();
    if (!path(section_)) return false;
    if (next() != ']') return fails("] behind the name of a table");
    ++at_;
    return ends();
  }

  bool ends() {
    skip_spaces();
    skip_comment();
    if (more() && next() != '\n') return fails("the end of the line");
    return true;
  }

  bool path(std::vector<std::string>& names) {
    for (;;) {
      skip_spaces();
      std::string name;
      if (next() == '"' || next() == '\'') {
        if (!quoted(name)) return false;
      } else {
        constexpr std::string_view kBare =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
        while (more() && kBare.find(next()) != std::string_view::npos) name += text_[at_++];
      }
      if (name.empty() || names.size() > kMostTomlDepth) return fails("a key");
      names.push_back(std::move(name));
      skip_spaces();
      if (next() != '.') return true;
      ++at_;
    }
  }

  bool value(Json& out, int depth) {
    if (next() == '"' || next() == '\'') {
      std::string text;
      if (!quoted(text)) return false;
      out = Json(std::move(text));
      return true;
    }
    if (next() == '[') return array(out, depth);
    if (next() == '{') return fails("a value", "inline tables are not read: write [TABLE]");
    std::string word;
    while (more() && std::string_view(" \t\r\n,]#").find(next()) == std::string_view::npos)
      word += text_[at_++];
    if (word == "true" || word == "false") {
      out = Json(word == "true");
      return true;
    }
    if (const auto number = number_of(word)) {
      out = *number;
      return true;
    }
    at_ -= word.size();
    return fails("a text in quotes, a number, true, false or [list]");
  }

  static std::optional<Json> number_of(std::string word) {
    std::erase(word, '_');
    if (word.starts_with('+')) word.erase(0, 1);
    const char* const end = word.data() + word.size();
    std::int64_t whole = 0;
    if (const auto [rest, error] = std::from_chars(word.data(), end, whole);
        error == std::errc() && rest == end)
      return Json(whole);
    double real = 0;
    const bool starts = !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'));
    if (const auto [rest, error] = std::from_chars(word.data(), end, real);
        starts && error == std::errc() && rest == end)
      return Json(real);
    return std::nullopt;
  }

  bool array(Json& out, int depth) {
    if (depth > kMostTomlDepth) return fails("a list that is not within so many others");
    out = Json::array();
    ++at_;
    for (;;) {
      skip_blank();
      if (next() == ']') break;
      Json item;
      if (!value(item, depth + 1)) return false;
      out.push_back(std::move(item));
      skip_blank();
      if (next() == ',') ++at_;
      else if (next() != ']') return fails(", or ] in a list");
    }
    ++at_;
    return true;
  }

  // 'literal' or "basic" with escapes.
  bool quoted(std::string& out) {
    const char quote = next();
    if (text_.substr(at_).starts_with("\"\"\"") || text_.substr(at_).starts_with("'''"))
      return fails("a text of one line", "texts of several lines are not read");
    for (++at_; more() && next() != quote; ++at_) {
      if (next() == '\n') break;
      if (quote == '\'' || next() != '\\') {
        out += next();
        continue;
      }
      ++at_;
      constexpr std::string_view kFrom = "btnfr\"\\", kTo = "\b\t\n\f\r\"\\";
      const std::size_t plain = kFrom.find(next());
      if (plain == std::string_view::npos) return fails("an escape of TOML, as \\n or \\\"",
                                                        "characters by number are not read");
      out += kTo[plain];
    }
    if (next() != quote) return fails(fmt::format("{} at the end of a text", quote));
    ++at_;
    return true;
  }

  std::string_view text_;
  std::string name_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<std::string> section_;
  std::set<std::string> names_;
  std::vector<Json::Member> members_;
  core::Problem problem_;
};

}  // namespace

core::Result<core::Json> parse_toml(std::string_view text, const std::string& name) {
  return TomlParser(text, name).all();
}

}  // namespace reports::imports
