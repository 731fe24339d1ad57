// YAML 1.2 (yaml.org), as far as launch configurations go.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "reports/imports/structured.hpp"

namespace reports::imports {
namespace {

using core::Json;

constexpr std::size_t kMostYamlDepth = 16;
constexpr std::string_view kYamlBlank = " \t\r";

std::string_view yaml_trimmed(std::string_view text) {
  while (!text.empty() && kYamlBlank.find(text.front()) != std::string_view::npos)
    text.remove_prefix(1);
  while (!text.empty() && kYamlBlank.find(text.back()) != std::string_view::npos)
    text.remove_suffix(1);
  return text;
}

class YamlParser {
 public:
  YamlParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  core::Result<Json> all() {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      ++line_;
      if (!row(text_.substr(at, end - at))) return problem_;
      at = end + 1;
    }
    close_lists();
    return Json::from_members(std::move(members_));
  }

 private:
  struct Open {                        // a key whose mapping or list may follow
    std::size_t indent = 0;
    std::string name;
  };

  bool fails(std::string expected, std::string_view found, std::string fix = "") {
    problem_ = {fmt::format("{}:{}", name_, line_), std::move(expected),
                fmt::format("\"{}\"", found.substr(0, 40)), std::move(fix)};
    return false;
  }

  bool row(std::string_view row) {
    const std::size_t indent = std::min(row.find_first_not_of(' '), row.size());
    std::string_view rest = row.substr(indent);
    if (rest.starts_with('\t'))
      return fails("blanks before a key", row, "YAML takes no tabs there");
    if (const std::size_t comment = comment_in(rest); comment < rest.size())
      rest = rest.substr(0, comment);
    rest = yaml_trimmed(rest);
    if (rest.empty() || rest == "---") return true;
    if (rest == "-" || rest.starts_with("- ")) return item(indent, rest);
    while (!open_.empty() && open_.back().indent >= indent) open_.pop_back();
    const std::size_t colon = rest.find(':');
    const bool pair = colon != std::string_view::npos && colon > 0 &&
                      (colon + 1 == rest.size() || rest[colon + 1] == ' ');
    if (!pair) return fails("KEY: VALUE", rest);
    if (open_.size() >= kMostYamlDepth) return fails("fewer keys within each other", rest);
    std::string name = open_.empty() ? "" : open_.back().name + '.';
    name += std::string(yaml_trimmed(rest.substr(0, colon)));
    if (!names_.insert(name).second) return fails(fmt::format("{} once", name), rest);
    const std::string_view text = yaml_trimmed(rest.substr(colon + 1));
    open_.push_back({indent, name});
    if (text.empty()) return true;
    Json value;
    if (!scalar(text, value)) return false;
    value.set_place(line_, 1);
    members_.push_back({std::move(name), std::move(value)});
    return true;
  }

  // "- value" of the list of the last key; lists may stand as deep as their key.
  bool item(std::size_t indent, std::string_view rest) {
    while (!open_.empty() && open_.back().indent > indent) open_.pop_back();
    if (open_.empty()) return fails("a key before a list", rest);
    Json value;
    const std::string_view text = yaml_trimmed(rest.substr(1));
    if (text.find(": ") != std::string_view::npos)
      return fails("a plain value in a list", rest, "mappings in lists are not read");
    if (!scalar(text, value)) return false;
    const std::string& name = open_.back().name;
    if (lists_.empty() || lists_.back().name != name) lists_.push_back({name, {}, line_});
    lists_.back().items.push_back(std::move(value));
    return true;
  }

  void close_lists() {
    for (List& list : lists_) {
      Json value = Json::from_items(std::move(list.items));
      value.set_place(list.line, 1);
      members_.push_back({std::move(list.name), std::move(value)});
    }
  }

  // Where a comment begins; the size of the text where none does.
  static std::size_t comment_in(std::string_view text) {
    char quote = '\0';
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (quote != '\0') {
        if (c == quote) quote = '\0';
      } else if ((c == '"' || c == '\'') && (i == 0 || text[i - 1] == ' ')) {
        quote = c;
      } else if (c == '#' && (i == 0 || text[i - 1] == ' ')) {
        return i;
      }
    }
    return text.size();
  }

  bool scalar(std::string_view text, Json& out) {
    if (text.empty()) return true;
    constexpr std::string_view kOthers = "&*!|>{[%@`";
    if (text.front() == '"' || text.front() == '\'') {
      if (text.size() < 2 || text.back() != text.front())
        return fails("a text of one line in quotes", text);
      const std::string_view inner = text.substr(1, text.size() - 2);
      if (inner.find_first_of("\\'\"") != std::string_view::npos)
        return fails("a text without quotes and escapes in it", text);
      out = Json(std::string(inner));
      return true;
    }
    if (text == "[]" || text == "{}") return true;
    if (kOthers.find(text.front()) != std::string_view::npos)
      return fails("a plain value", text, "anchors, tags, [lists], {mappings} and texts of several "
                                          "lines are not read");
    out = plain(text);
    return true;
  }

  static Json plain(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (lower == "null" || lower == "~") return {};
    if (lower == "true" || lower == "yes" || lower == "on") return Json(true);
    if (lower == "false" || lower == "no" || lower == "off") return Json(false);
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error == std::errc() && end == text.data() + text.size()) return Json(whole);
    return Json(std::string(text));
  }

  struct List {
    std::string name;
    std::vector<Json> items;
    int line = 0;
  };

  std::string_view text_;
  std::string name_;
  int line_ = 0;
  std::vector<Open> open_;
  std::set<std::string> names_;
  std::vector<List> lists_;
  std::vector<Json::Member> members_;
  core::Problem problem_;
};

}  // namespace

core::Result<core::Json> parse_yaml(std::string_view text, const std::string& name) {
  return YamlParser(text, name).all();
}

}  // namespace reports::imports
