// The shell's grammar of words: POSIX.1-2017, volume 3, section 2.3, and bash's arrays.
#include "reports/imports/shell_tokens.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace reports::imports {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kOperators = ";&|()<>\n";

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "NAME=" or "NAME+=": what an array's parenthesis follows.
bool begins_array(std::string_view word) {
  if (!word.ends_with('=')) return false;
  word.remove_suffix(1);
  if (word.ends_with('+')) word.remove_suffix(1);
  return is_shell_name(word);
}

class Tokenizer {
 public:
  Tokenizer(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  core::Result<std::vector<ShellToken>> all() {
    std::vector<ShellToken> tokens;
    while (more()) {
      if (!step(tokens)) return problems_;
    }
    return tokens;
  }

 private:
  bool more() const { return at_ < text_.size(); }
  bool fails(std::string_view what, int line) {
    problems_.push_back({fmt::format("{}:{}", name_, line), fmt::format("the end of {}", what),
                         "the end of the file", "close it"});
    return false;
  }

  // Takes one token, or blanks.
  bool step(std::vector<ShellToken>& tokens) {
    const char c = text_[at_];
    if (kBlanks.find(c) != std::string_view::npos) return ++at_, true;
    if (text_.substr(at_).starts_with("\\\n")) return take_lines(2), true;
    if (text_.substr(at_).starts_with("\\\r\n")) return take_lines(3), true;
    if (c == '#') return skip_comment(), true;
    if (c == '\n') {
      tokens.push_back({ShellToken::Kind::newline, "\n", {}, line_});
      take_lines(1);
      skip_documents();
      return true;
    }
    if (kOperators.find(c) != std::string_view::npos) return take_operator(tokens), true;
    return take_word(tokens);
  }

  void take_lines(std::size_t count) {
    line_ += static_cast<int>(std::ranges::count(text_.substr(at_, count), '\n'));
    at_ += std::min(count, text_.size() - at_);
  }
  void skip_comment() {
    while (more() && text_[at_] != '\n') ++at_;
  }

  void take_operator(std::vector<ShellToken>& tokens) {
    const char c = text_[at_];
    std::size_t length = 1;
    while (length < 3 && at_ + length < text_.size() && text_[at_ + length] == c && c != '(' &&
           c != ')')
      ++length;
    const std::string_view found = text_.substr(at_, length);
    at_ += length;
    if (found == "<<") return note_document();
    tokens.push_back({ShellToken::Kind::operator_, std::string(found), {}, line_});
    if (c == '>' && more() && text_[at_] == '&') ++at_;
  }

  // A here-document's last line, which begins on the next line.
  void note_document() {
    if (more() && text_[at_] == '-') ++at_;
    while (more() && kBlanks.find(text_[at_]) != std::string_view::npos) ++at_;
    std::string end;
    while (more() && kBlanks.find(text_[at_]) == std::string_view::npos &&
           kOperators.find(text_[at_]) == std::string_view::npos) {
      if (std::string_view("'\"\\").find(text_[at_]) == std::string_view::npos) end += text_[at_];
      ++at_;
    }
    if (!end.empty()) documents_.push_back(std::move(end));
  }
  void skip_documents() {
    for (const std::string& end : documents_)
      while (more()) {
        const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, stop - at_);
        while (line.starts_with('\t')) line.remove_prefix(1);
        take_lines(stop - at_ + 1);
        if (line == end) break;
      }
    documents_.clear();
  }

  bool take_word(std::vector<ShellToken>& tokens) {
    ShellToken word{ShellToken::Kind::word, "", {}, line_};
    while (more()) {
      const char c = text_[at_];
      if (kBlanks.find(c) != std::string_view::npos) break;
      if (c == '(' && begins_array(word.text)) return take_array(std::move(word), tokens);
      if (kOperators.find(c) != std::string_view::npos) break;
      if (text_.substr(at_).starts_with("\\\n")) {
        take_lines(2);
        continue;
      }
      const bool opens = c == '\'' || c == '"' || c == '`' ||
                         (c == '$' && at_ + 1 < text_.size() &&
                          (text_[at_ + 1] == '(' || text_[at_ + 1] == '{'));
      std::size_t end = at_ + (c == '\\' ? 2 : 1);
      if (opens) end = shell_closed(text_, at_);
      if (end == std::string_view::npos)
        return fails(fmt::format("what opens with {}", text_.substr(at_, c == '$' ? 2 : 1)),
                     line_);
      end = std::min(end, text_.size());
      word.text += text_.substr(at_, end - at_);
      take_lines(end - at_);
    }
    const bool redirects = more() && (text_[at_] == '<' || text_[at_] == '>') &&
                           word.text.find_first_not_of("0123456789") == std::string::npos;
    if (!redirects) tokens.push_back(std::move(word));  // "2>": a stream's number
    return true;
  }

  bool take_array(ShellToken word, std::vector<ShellToken>& tokens) {
    word.kind = ShellToken::Kind::array;
    word.text.pop_back();
    ++at_;
    while (more() && text_[at_] != ')') {
      std::vector<ShellToken> found;
      if (!step(found)) return false;
      for (ShellToken& item : found)
        if (item.kind == ShellToken::Kind::word) word.items.push_back(std::move(item));
    }
    if (!more()) return fails(fmt::format("the array {}", word.text), word.line);
    ++at_;
    tokens.push_back(std::move(word));
    return true;
  }

  std::string_view text_, name_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<std::string> documents_;
  core::Problems problems_;
};

// Behind the bracket that closes the one before `at`, brackets of the same kind and quotes within
// it taken whole.
std::size_t closed_bracket(std::string_view text, std::size_t at, char open, char close,
                           int nesting) {
  for (int depth = 1; at < text.size();) {
    const char c = text[at];
    const bool nested = c == '\'' || c == '"' || c == '`';
    if (nested) {
      at = shell_closed(text, at, nesting + 1);
      if (at == std::string_view::npos) return at;
      continue;
    }
    if (c == '\\') ++at;
    if (c == open) ++depth;
    if (c == close && --depth == 0) return at + 1;
    ++at;
  }
  return std::string_view::npos;
}

}  // namespace

core::Result<std::vector<ShellToken>> shell_tokens(std::string_view text, std::string_view name) {
  return Tokenizer(text, name).all();
}

bool is_shell_name(std::string_view text) {
  return !text.empty() && starts_name(text.front()) && std::ranges::all_of(text, in_name);
}

std::size_t shell_closed(std::string_view text, std::size_t at, int depth) {
  if (depth > kMostNested) return std::string_view::npos;
  const char c = text[at];
  if (c == '\'') {
    const std::size_t end = text.find('\'', at + 1);
    return end == std::string_view::npos ? end : end + 1;
  }
  if (c == '$') {
    const char open = text[at + 1];
    return closed_bracket(text, at + 2, open, open == '(' ? ')' : '}', depth);
  }
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == c) {
      return i + 1;
    } else if (c == '"' && text[i] == '$' && i + 1 < text.size() &&
               (text[i + 1] == '(' || text[i + 1] == '{')) {
      i = shell_closed(text, i, depth + 1);
      if (i == std::string_view::npos) return i;
      --i;
    }
  }
  return std::string_view::npos;
}

}  // namespace reports::imports
