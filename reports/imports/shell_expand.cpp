// Replaces what a word of a shell quotes and names: POSIX.1-2017, volume 3, section 2.6.
#include <cctype>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "reports/imports/shell.hpp"

namespace reports::imports {
namespace {

// Whole numbers with + - * / % and parentheses; nothing where it is anything else.
class Sum {
 public:
  explicit Sum(std::string_view text) : text_(text) {}
  std::optional<std::int64_t> value() {
    const auto sum = terms(0);
    skip();
    return at_ == text_.size() ? sum : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  char next() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::optional<std::int64_t> terms(int depth) {
    auto sum = factors(depth);
    while (sum && (next() == '+' || next() == '-')) {
      const char sign = text_[at_++];
      const auto more = factors(depth);
      if (!more) return more;
      sum = checked(sign, *sum, *more);
    }
    return sum;
  }
  std::optional<std::int64_t> factors(int depth) {
    auto product = one(depth);
    while (product && (next() == '*' || next() == '/' || next() == '%')) {
      const char sign = text_[at_++];
      const auto more = one(depth);
      if (!more) return more;
      product = checked(sign, *product, *more);
    }
    return product;
  }
  std::optional<std::int64_t> one(int depth) {
    if (depth > kMostNested) return std::nullopt;
    if (next() == '(') {
      ++at_;
      const auto inner = terms(depth + 1);
      if (next() != ')') return std::nullopt;
      ++at_;
      return inner;
    }
    std::int64_t number = 0;
    const char* const from = text_.data() + at_;
    const auto [end, error] = std::from_chars(from, text_.data() + text_.size(), number);
    if (error != std::errc() || end == from) return std::nullopt;
    at_ += static_cast<std::size_t>(end - from);
    return number;
  }
  static std::optional<std::int64_t> checked(char sign, std::int64_t a, std::int64_t b) {
    std::int64_t out = 0;
    bool wrong = false;
    if (sign == '+') wrong = __builtin_add_overflow(a, b, &out);
    if (sign == '-') wrong = __builtin_sub_overflow(a, b, &out);
    if (sign == '*') wrong = __builtin_mul_overflow(a, b, &out);
    if (sign == '/' || sign == '%') {
      wrong = b == 0 || (a == INT64_MIN && b == -1);
      if (!wrong) out = sign == '/' ? a / b : a % b;
    }
    return wrong ? std::nullopt : std::optional(out);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

constexpr std::size_t kMostExpanded = std::size_t{16} << 20;  // bytes of all words

}  // namespace

// One word. Texts of variables are data: nothing in them is replaced again.
class ShellExpander {
 public:
  ShellExpander(Shell& shell, int line, bool splits)
      : shell_(shell), line_(line), splits_(splits) {}

  std::vector<ShellWord> fields(std::string_view raw) {
    put_raw(raw, false, 0);
    if (open_) close();
    return std::move(fields_);
  }

 private:
  void close() {
    if (field_.line == 0) field_.line = line_;
    fields_.push_back(std::exchange(field_, {}));
    open_ = false;
  }
  void put(std::string_view text) {
    shell_.expanded_ += text.size();
    if (shell_.expanded_ > kMostExpanded) {  // doubled again and again: no launch of anybody's
      field_.known = false;
      return;
    }
    field_.text += text;
    open_ = true;
  }
  // As it is written, since nobody knows what it stands for.
  void put_unknown(std::string_view raw) {
    const bool one = raw.find_first_of(" \t\n") == std::string_view::npos;
    put(one ? raw : raw.starts_with("${") ? "${...}" : "$(...)");
    field_.known = false;
  }
  void put_value(const ShellWord& value, bool quoted) {
    if (quoted || !splits_) {
      put(value.text);
      open_ = true;
      mark(value);
      return;
    }
    std::string_view rest = value.text;
    constexpr std::string_view kBlank = " \t\r\n";
    while (!rest.empty()) {
      const std::size_t blank = rest.find_first_not_of(kBlank);
      if (blank > 0 && open_) close();
      if (blank == std::string_view::npos) return;
      rest.remove_prefix(blank);
      const std::size_t end = std::min(rest.find_first_of(kBlank), rest.size());
      put(rest.substr(0, end));
      mark(value, rest.substr(0, end));
      rest.remove_prefix(end);
    }
  }
  void mark(const ShellWord& value) { mark(value, "$"); }
  // Of a text whose parts are split, those that name what is not known are not.
  void mark(const ShellWord& value, std::string_view part) {
    const bool has_unknown = part.find_first_of("$`") != std::string_view::npos;
    field_.known = field_.known && (value.known || !has_unknown);
    field_.sure = field_.sure && value.sure;
    if (field_.line == 0) field_.line = value.line;
    if (!value.by_default.empty()) field_.by_default = value.by_default;
  }

  void put_raw(std::string_view raw, bool quoted, int depth) {
    for (std::size_t i = 0; i < raw.size();) {
      const char c = raw[i];
      if (c == '\\') {
        i += put_escaped(raw.substr(i), quoted);
      } else if (c == '\'' && !quoted) {
        const std::size_t end = std::min(shell_closed(raw, i), raw.size());
        put(raw.substr(i + 1, end - i - 2));
        open_ = true;
        i = end;
      } else if (c == '"') {
        const std::size_t end = std::min(shell_closed(raw, i), raw.size());
        const std::string_view inner = raw.substr(i + 1, end - i - 2);
        const bool may_vanish = inner == "$@" || inner == "${@}" ||
                                inner.find("[@]") != std::string_view::npos;
        open_ = open_ || !may_vanish;
        if (depth < kMostNested) put_raw(inner, true, depth + 1);
        i = end;
      } else if (c == '`') {
        const std::size_t end = std::min(shell_closed(raw, i), raw.size());
        put_unknown(raw.substr(i, end - i));
        i = end;
      } else if (c == '$' && i + 1 < raw.size()) {
        i += put_dollar(raw.substr(i), quoted, depth);
      } else {
        put(raw.substr(i, 1));
        ++i;
      }
    }
  }

  std::size_t put_escaped(std::string_view raw, bool quoted) {
    if (raw.size() < 2) return put(raw), raw.size();
    const bool joins = raw[1] == '\n';
    const bool kept = quoted && std::string_view("$`\"\\\n").find(raw[1]) == std::string_view::npos;
    if (kept) put("\\");
    if (!joins) put(raw.substr(1, 1));
    return 2;
  }

  // "$NAME", "${...}", "$(...)", "$((...))": how long what was put is.
  std::size_t put_dollar(std::string_view raw, bool quoted, int depth) {
    if (raw[1] == '(' || raw[1] == '{') {
      const std::size_t end = std::min(shell_closed(raw, 0), raw.size());
      const std::string_view whole = raw.substr(0, end);
      if (whole.starts_with("$((") && whole.ends_with("))"))
        put_sum(whole, depth);
      else if (raw[1] == '(')
        put_unknown(whole);
      else
        put_braced(whole, quoted, depth);
      return end;
    }
    std::size_t end = 1;
    while (end < raw.size() && (std::isalnum(static_cast<unsigned char>(raw[end])) != 0 ||
                                raw[end] == '_')) {
      ++end;
      if (std::isdigit(static_cast<unsigned char>(raw[1])) != 0) break;
    }
    if (end > 1) return put_variable(raw.substr(1, end - 1), raw.substr(0, end), quoted), end;
    if (raw[1] == '@' || raw[1] == '*') return 2;  // the script's own arguments: none
    if (std::string_view("#?!$-").find(raw[1]) != std::string_view::npos)
      return put_unknown(raw.substr(0, 2)), 2;
    return put("$"), 1;
  }

  void put_sum(std::string_view whole, int depth) {
    const std::string_view inner = whole.substr(3, whole.size() - 5);
    std::string text;                  // names stand for themselves there, without a dollar sign
    for (std::size_t i = 0; i < inner.size();) {
      std::size_t end = i;
      while (end < inner.size() && (std::isalnum(static_cast<unsigned char>(inner[end])) != 0 ||
                                    inner[end] == '_'))
        ++end;
      const std::string_view name = inner.substr(i, end - i);
      const bool plain = is_shell_name(name) && (i == 0 || (inner[i - 1] != '$' &&
                                                            inner[i - 1] != '{'));
      text += plain ? fmt::format("${}", name)
                    : std::string(inner.substr(i, std::max<std::size_t>(1, end - i)));
      i = std::max(end, i + 1);
    }
    ShellExpander parts(shell_, line_, false);
    parts.put_raw(text, true, depth + 1);
    const auto sum = parts.field_.known ? Sum(parts.field_.text).value() : std::nullopt;
    if (sum) put(fmt::format("{}", *sum));
    else put_unknown(whole);
    field_.sure = field_.sure && parts.field_.sure;
  }

  void put_variable(std::string_view name, std::string_view raw, bool quoted) {
    const auto given = shell_.given_.find(std::string(name));
    if (given != shell_.given_.end())
      return put_value({given->second, true, true, line_, ""}, quoted);
    const auto it = shell_.variables_.find(name);
    const bool positional = !is_shell_name(name);
    if (it == shell_.variables_.end() && shell_.unset_is_empty_ && !positional) {
      shell_.taken_empty_.emplace_back(name);
      return;
    }
    if (it == shell_.variables_.end()) return put_unknown(raw);
    if (!it->second.items.empty()) put_value(it->second.items.front(), quoted);
    else if (quoted) open_ = true;
  }

  void put_all(std::string_view name, bool quoted) {
    const auto it = shell_.variables_.find(name);
    if (it == shell_.variables_.end()) return;
    for (std::size_t i = 0; i < it->second.items.size(); ++i) {
      if (i > 0 && open_ && splits_) close();
      if (i > 0 && !splits_) put(" ");
      put_value(it->second.items[i], quoted);
    }
  }

  void put_braced(std::string_view whole, bool quoted, int depth) {
    const std::string_view inner = whole.substr(2, whole.size() - 3);
    std::size_t end = 0;
    while (end < inner.size() && (std::isalnum(static_cast<unsigned char>(inner[end])) != 0 ||
                                  inner[end] == '_'))
      ++end;
    const std::string_view name = inner.substr(0, end);
    std::string_view rest = inner.substr(end);
    if (name.empty()) return inner == "@" ? void() : put_unknown(whole);
    if (rest == "[@]" || rest == "[*]") return put_all(name, quoted);
    if (rest.empty()) return put_variable(name, whole, quoted);
    const bool or_empty = rest.starts_with(':');
    if (or_empty) rest.remove_prefix(1);
    if (rest.empty() || std::string_view("-=+?").find(rest.front()) == std::string_view::npos)
      return put_unknown(whole);
    const std::string_view other = rest.substr(1);
    const auto it = shell_.variables_.find(name);
    const bool given = shell_.given_.contains(std::string(name));
    const bool set = given || (it != shell_.variables_.end() &&
                               !(or_empty && (it->second.items.empty() ||
                                              it->second.items.front().text.empty())));
    if (rest.front() == '+') return set ? put_raw(other, quoted, depth + 1) : void();
    if (set) return put_variable(name, whole, quoted);
    if (rest.front() == '?') return put_unknown(whole);
    if (depth < kMostNested) put_raw(other, quoted, depth + 1);
    if (is_shell_name(name)) field_.by_default = name;
  }

  Shell& shell_;
  int line_;
  bool splits_;
  std::vector<ShellWord> fields_;
  ShellWord field_;
  bool open_ = false;
};

std::vector<ShellWord> Shell::expand(const ShellToken& token) {
  return ShellExpander(*this, token.line, true).fields(token.text);
}

ShellWord Shell::expand_whole(const ShellToken& token) {
  std::vector<ShellWord> fields = ShellExpander(*this, token.line, false).fields(token.text);
  if (fields.empty()) return {"", true, true, token.line, ""};
  ShellWord whole = std::move(fields.front());
  for (std::size_t i = 1; i < fields.size(); ++i) {
    whole.text += ' ' + fields[i].text;
    whole.known = whole.known && fields[i].known;
    whole.sure = whole.sure && fields[i].sure;
  }
  return whole;
}

}  // namespace reports::imports
