// Python's grammar of words: The Python Language Reference 3.12, chapter 2.
#include "reports/imports/python_tokens.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include <fmt/format.h>

namespace reports::imports {
namespace {

using TokenKind = PythonToken::Kind;

constexpr std::size_t kMostPythonTokens = std::size_t{1} << 18, kMostIndents = 32,
                      kMostPythonBrackets = 48;

// The longest first, so that the first that fits is the one.
constexpr std::array<std::string_view, 47> kPythonOperators{
    "**=", "//=", ">>=", "<<=", "...", "->", ":=", "==", "!=", "<=", ">=", "**",
    "//",  "+=",  "-=",  "*=",  "/=",  "%=", "&=", "|=", "^=", "@=", "<<", ">>",
    "+",   "-",   "*",   "/",   "%",   "@",  "&",  "|",  "^",  "~",  "<",  ">",
    "(",   ")",   "[",   "]",   "{",   "}",  ",",  ":",  ".",  ";",  "="};

bool is_python_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool in_python_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80U;
}

class PythonTokenizer {
 public:
  PythonTokenizer(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  core::Result<std::vector<PythonToken>> all() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    begins_line_ = true;
    while (at_ < text_.size() && !problem_) {
      if (tokens_.size() > kMostPythonTokens)
        fails(line_, fmt::format("at most {} words", kMostPythonTokens), "more of them");
      else
        step();
    }
    if (!problem_ && !open_.empty())
      fails(tokens_[open_.back()].line, "the bracket that closes it", "the end of the file");
    if (problem_) return *problem_;
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::newline) add(TokenKind::newline, 0);
    while (!indents_.empty()) close_indent();
    add(TokenKind::end, 0);
    return std::move(tokens_);
  }

 private:
  void fails(int line, std::string expected, std::string found) {
    problem_ =
        core::Problem{fmt::format("{}:{}", name_, line), std::move(expected), std::move(found), ""};
  }

  void add(TokenKind kind, std::size_t length, std::string value = "") {
    tokens_.push_back({kind, text_.substr(at_, length), std::move(value), line_, 0});
    at_ += length;
  }

  void pair(std::size_t open, std::size_t close) {
    tokens_[open].partner = close;
    tokens_[close].partner = open;
  }

  void step() {
    if (begins_line_ && open_.empty()) return indent();
    const char c = text_[at_];
    const std::string_view rest = text_.substr(at_, 3);
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (rest.starts_with("\\\n") || rest.starts_with("\\\r\n")) {
      at_ += rest.find('\n') + 1;
      ++line_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\n') {
      end_line();
    } else if (is_python_digit(c) || (c == '.' && rest.size() > 1 && is_python_digit(rest[1]))) {
      number();
    } else if (const auto quote = quote_at()) {
      text_from(*quote);
    } else if (in_python_name(c)) {
      add(TokenKind::name, name_length(at_));
    } else {
      op();
    }
  }

  std::size_t name_length(std::size_t from) const {
    std::size_t end = from;
    while (end < text_.size() && in_python_name(text_[end])) ++end;
    return end - from;
  }

  void end_line() {
    if (open_.empty() && !tokens_.empty() && tokens_.back().kind != TokenKind::newline)
      tokens_.push_back({TokenKind::newline, text_.substr(at_, 1), "", line_, 0});
    ++at_;
    ++line_;
    begins_line_ = open_.empty();
  }

  // Blank lines and lines of comments alone have no indentation.
  void indent() {
    std::size_t column = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == ' ')
        ++column;
      else if (text_[at_] == '\t')
        column = column / 8 * 8 + 8;
      else if (text_[at_] == '\f')
        column = 0;
      else
        break;
    }
    begins_line_ = false;
    if (at_ == text_.size() || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '#')
      return;
    const std::size_t now = indents_.empty() ? 0 : indents_.back().column;
    if (column > now) {
      if (indents_.size() == kMostIndents)
        return fails(line_, fmt::format("at most {} levels of indentation", kMostIndents),
                     "more of them");
      indents_.push_back({column, tokens_.size()});
      return add(TokenKind::indent, 0);
    }
    while (!indents_.empty() && column < indents_.back().column) close_indent();
    if (column != (indents_.empty() ? 0 : indents_.back().column))
      fails(line_, "the indentation of a line above", "another one");
  }

  void close_indent() {
    add(TokenKind::dedent, 0);
    pair(indents_.back().token, tokens_.size() - 1);
    indents_.pop_back();
  }

  void number() {
    std::size_t end = at_;
    while (end < text_.size()) {
      const char c = text_[end];
      const bool sign = (c == '+' || c == '-') &&
                        (text_[end - 1] == 'e' || text_[end - 1] == 'E') &&
                        !text_.substr(at_).starts_with("0x");
      if (!in_python_name(c) && c != '.' && !(end > at_ && sign)) break;
      ++end;
    }
    add(TokenKind::number, end - at_);
  }

  struct Quote {
    std::size_t prefix, length;  // letters before it; quotation marks
    char mark;
    bool raw, opaque;
  };
  std::optional<Quote> quote_at() const {
    Quote quote{0, 1, 0, false, false};
    std::size_t at = at_;
    for (; at < text_.size() && quote.prefix < 3; ++at, ++quote.prefix) {
      const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(text_[at])));
      if (c == 'r')
        quote.raw = true;
      else if (c == 'b' || c == 'f' || c == 't')
        quote.opaque = true;
      else if (c != 'u')
        break;
    }
    if (at >= text_.size() || (text_[at] != '"' && text_[at] != '\'')) return std::nullopt;
    quote.mark = text_[at];
    if (text_.substr(at).starts_with(std::string(3, quote.mark))) quote.length = 3;
    return quote;
  }

  void text_from(const Quote& quote) {
    const int first = line_;
    const std::string closing(quote.length, quote.mark);
    std::string value;
    bool opaque = quote.opaque;
    int lines = 0;
    std::size_t at = at_ + quote.prefix + quote.length;
    while (at < text_.size() && !text_.substr(at).starts_with(closing)) {
      const char c = text_[at];
      if (c == '\n' && quote.length == 1) break;
      if (c == '\n') ++lines;
      if (c == '\\' && at + 1 < text_.size()) {
        const char next = text_[++at];
        if (next == '\n') ++lines;
        opaque = !unescape(next, quote.raw, value) || opaque;
        ++at;
        continue;
      }
      value += c;
      ++at;
    }
    if (!text_.substr(at).starts_with(closing))
      return fails(first, "the quotation mark that ends the text", "none");
    const std::size_t length = at + closing.size() - at_;
    add(opaque ? TokenKind::opaque : TokenKind::text, length, std::move(value));
    line_ += lines;
  }

  // False: an escape whose character this reader does not work out.
  static bool unescape(char next, bool raw, std::string& value) {
    if (raw) return value += '\\', value += next, true;
    constexpr std::string_view kFrom = "nt\\'\"", kTo = "\n\t\\'\"";
    if (next == '\n') return true;
    const std::size_t at = kFrom.find(next);
    if (at != std::string_view::npos) value += kTo[at];
    return at != std::string_view::npos;
  }

  void op() {
    const std::string_view rest = text_.substr(at_);
    const auto found = std::ranges::find_if(
        kPythonOperators, [&](std::string_view word) { return rest.starts_with(word); });
    if (found == kPythonOperators.end())
      return fails(line_, "Python", fmt::format("\"{}\"", rest[0]));
    const char c = rest[0];
    const std::size_t index = tokens_.size();
    add(TokenKind::op, found->size());
    if (c == '(' || c == '[' || c == '{') {
      if (open_.size() == kMostPythonBrackets)
        return fails(line_,
                     fmt::format("at most {} brackets within each other", kMostPythonBrackets),
                     "more of them");
      return open_.push_back(index);
    }
    if (c != ')' && c != ']' && c != '}') return;
    const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open_.empty() || tokens_[open_.back()].source[0] != opening)
      return fails(line_, "brackets in pairs", fmt::format("\"{}\"", c));
    pair(open_.back(), index);
    open_.pop_back();
  }

  struct Indent {
    std::size_t column, token;
  };

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool begins_line_ = true;
  std::vector<PythonToken> tokens_;
  std::vector<std::size_t> open_;
  std::vector<Indent> indents_;
  std::optional<core::Problem> problem_;
};

}  // namespace

core::Result<std::vector<PythonToken>> python_tokens(std::string_view text,
                                                     const std::string& name) {
  return PythonTokenizer(text, name).all();
}

}  // namespace reports::imports
