#include "reports/imports/shell.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

#include <fmt/format.h>

namespace reports::imports {
namespace {

using Kind = ShellToken::Kind;

constexpr std::size_t kMostItems = 100'000;  // of one array
constexpr std::size_t kMostTested = 200;     // words of one test
constexpr std::size_t kMostFrames = 256;     // branches and loops within each other

// The parts of "NAME=value" and "NAME+=value"; no name where it is neither.
struct Assigned {
  std::string_view name, value;
  bool append = false;
};
Assigned assigned_by(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return {};
  std::string_view name = word.substr(0, equals);
  const bool append = name.ends_with('+');
  if (append) name.remove_suffix(1);
  if (!is_shell_name(name)) return {};
  return {name, word.substr(equals + 1), append};
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, word) != all.end();
}

// A test's words, with operators of [[ ]] as words of their own.
enum class Answer : std::uint8_t { no, yes, unknown };
using Words = std::span<const ShellWord>;

Answer of(bool is) { return is ? Answer::yes : Answer::no; }
Answer opposite(Answer a) {
  return a == Answer::unknown ? a : of(a == Answer::no);
}

Answer compared(const ShellWord& left, std::string_view by, const ShellWord& right) {
  if (!left.known || !right.known || !left.sure || !right.sure) return Answer::unknown;
  if (is_one_of(by, {"=", "==", "!="})) {
    if (right.text.find_first_of("*?[") != std::string::npos) return Answer::unknown;
    return of((left.text == right.text) == (by != "!="));
  }
  std::array<std::int64_t, 2> n{};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string& text = i == 0 ? left.text : right.text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n[i]);
    if (error != std::errc() || end != text.data() + text.size()) return Answer::unknown;
  }
  if (by == "-eq") return of(n[0] == n[1]);
  if (by == "-ne") return of(n[0] != n[1]);
  if (by == "-lt") return of(n[0] < n[1]);
  if (by == "-le") return of(n[0] <= n[1]);
  if (by == "-gt") return of(n[0] > n[1]);
  if (by == "-ge") return of(n[0] >= n[1]);
  return Answer::unknown;
}

Answer answer(Words words) {
  if (words.size() > kMostTested) return Answer::unknown;
  const auto split = [&](std::string_view a, std::string_view b) {
    return static_cast<std::size_t>(
        std::ranges::find_if(words,
                             [&](const ShellWord& w) { return w.text == a || w.text == b; }) -
        words.begin());
  };
  if (const std::size_t at = split("||", "-o"); at < words.size()) {
    const Answer left = answer(words.first(at)), right = answer(words.subspan(at + 1));
    if (left == Answer::yes || right == Answer::yes) return Answer::yes;
    return left == Answer::no && right == Answer::no ? Answer::no : Answer::unknown;
  }
  if (const std::size_t at = split("&&", "-a"); at < words.size()) {
    const Answer left = answer(words.first(at)), right = answer(words.subspan(at + 1));
    if (left == Answer::no || right == Answer::no) return Answer::no;
    return left == Answer::yes && right == Answer::yes ? Answer::yes : Answer::unknown;
  }
  if (!words.empty() && words.front().text == "!") return opposite(answer(words.subspan(1)));
  if (words.size() == 3) return compared(words[0], words[1].text, words[2]);
  if (words.empty() || words.size() > 2) return Answer::unknown;
  const ShellWord& last = words.back();
  if (!last.known || !last.sure) return Answer::unknown;
  if (words.size() == 1 || words.front().text == "-n") return of(!last.text.empty());
  return words.front().text == "-z" ? of(last.text.empty()) : Answer::unknown;
}

}  // namespace

Shell::Shell(const std::map<std::string, std::string>& given) : given_(given) {}

core::Status Shell::read(std::string_view text, const std::string& name) {
  const auto tokens = shell_tokens(text, name);
  if (!tokens.ok()) return tokens.problems();
  note_batch(text);
  ended_ = false;
  frames_.clear();
  for (std::size_t at = 0; at < tokens->size() && !ended_;) at = statement(*tokens, at);
  return core::Done{};
}

void Shell::note_batch(std::string_view text) {
  constexpr std::string_view kMark = "#SBATCH ";
  for (std::size_t at = 0, line = 1; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at);
    at = end + 1;
    if (!row.starts_with(kMark)) continue;
    const auto words = shell_tokens(row.substr(kMark.size()), "");
    if (!words.ok()) continue;
    for (const ShellToken& word : *words)
      if (word.kind == Kind::word)
        batch_.push_back({word.text, true, true, static_cast<int>(line), ""});
  }
}

Shell::Truth Shell::live() const {
  Truth all = Truth::yes;
  for (const Frame& f : frames_) {
    if (f.conditioning) continue;
    if (f.taken == Truth::no) return Truth::no;
    if (f.taken == Truth::unknown) all = Truth::unknown;
  }
  return all;
}

void Shell::begins(Frame::Kind kind, Truth taken, bool conditioning) {
  Frame frame;
  frame.kind = kind;
  frame.taken = taken;
  frame.conditioning = conditioning;
  frames_.push_back(frame);
}

void Shell::ends(Frame::Kind kind) {
  if (!frames_.empty() && frames_.back().kind == kind) frames_.pop_back();
  last_ = Truth::yes;
}

// elif, else: what came before decides whether this one may run.
void Shell::next_branch(bool last) {
  if (frames_.empty() || frames_.back().kind != Frame::Kind::branches) return;
  Frame& f = frames_.back();
  f.had = f.had || f.taken == Truth::yes;
  f.might = f.might || f.taken == Truth::unknown;
  f.conditioning = !last;
  f.taken = f.had ? Truth::no : f.might ? Truth::unknown : Truth::yes;
}

bool Shell::reserved(Tokens& tokens) {
  if (tokens.empty() || tokens.front().kind != Kind::word) return false;
  if (frames_.size() > kMostFrames) return false;
  const std::string word = tokens.front().text;
  const auto take = [&] {
    tokens.erase(tokens.begin());
    return true;
  };
  if (word == "if") return begins(Frame::Kind::branches, Truth::yes, true), take();
  if (word == "elif") return next_branch(false), take();
  if (word == "else") return next_branch(true), take();
  if (word == "then" && !frames_.empty()) {
    Frame& f = frames_.back();
    const bool open = f.kind == Frame::Kind::branches;
    if (open && !f.had) f.taken = f.might && last_ == Truth::yes ? Truth::unknown : last_;
    if (open) f.conditioning = false;
    last_ = Truth::yes;
    return take();
  }
  if (word == "fi") return ends(Frame::Kind::branches), take();
  if (word == "while" || word == "until")
    return begins(Frame::Kind::loop, Truth::unknown, true), take();
  if (word == "for" || word == "select" || word == "case") {
    const Frame::Kind kind = word == "case" ? Frame::Kind::cases : Frame::Kind::loop;
    if (word != "case" && tokens.size() > 1 && is_shell_name(tokens[1].text))
      assign(tokens[1].text, false,
             Value{{{'$' + tokens[1].text, false, true, tokens[1].line, ""}}, false}, Truth::yes);
    begins(kind, Truth::unknown, false);
    tokens.clear();
    return true;
  }
  if (word == "do" && !frames_.empty()) return frames_.back().conditioning = false, take();
  if (word == "done") return ends(Frame::Kind::loop), take();
  if (word == "esac") return ends(Frame::Kind::cases), take();
  if (word == "{") {
    begins(names_function_ ? Frame::Kind::function : Frame::Kind::group, Truth::yes, false);
    names_function_ = false;
    return take();
  }
  if (word == "}") {
    if (!frames_.empty()) ends(frames_.back().kind);
    return take();
  }
  if (word == "function") {
    names_function_ = true;
    take();
    if (!tokens.empty()) take();
    return true;
  }
  return is_one_of(word, {"time"}) && take();
}

// Tokens up to what ends a command, which is taken too; gives the place behind it.
std::size_t Shell::statement(const Tokens& tokens, std::size_t at) {
  Tokens own;
  std::string ended_by = "\n";
  bool in_test = false;
  for (; at < tokens.size(); ++at) {
    const ShellToken& t = tokens[at];
    const bool ends_here = !in_test && t.kind != Kind::word && t.kind != Kind::array;
    if (!ends_here) {
      if (t.text == "[[" || t.text == "]]") in_test = t.text == "[[";
      if (t.kind != Kind::newline) own.push_back(t);
      continue;
    }
    if (t.text.front() == '<' || t.text.front() == '>') {
      ++at;                            // what it redirects to
      continue;
    }
    ended_by = t.text;
    ++at;
    break;
  }
  const bool pattern = ended_by == ")" && !frames_.empty() &&
                       frames_.back().kind == Frame::Kind::cases;
  const bool function = ended_by == "(" && own.size() == 1 && at < tokens.size() &&
                        tokens[at].text == ")";
  if (function) {
    names_function_ = true;
    return at + 1;
  }
  while (reserved(own)) {
  }
  if (!pattern && !own.empty()) {
    Truth run = live();
    const bool after = joined_by_ == "&&" || joined_by_ == "||";
    if (after && last_ == Truth::unknown && run == Truth::yes) run = Truth::unknown;
    if (after && last_ == (joined_by_ == "&&" ? Truth::no : Truth::yes)) run = Truth::no;
    if (run != Truth::no) simple(std::move(own), run);
  }
  joined_by_ = ended_by == "&&" || ended_by == "||" ? ended_by : "";
  return at;
}

void Shell::simple(Tokens tokens, Truth run) {
  if (tokens.front().text == "[[" || tokens.front().text == "[" || tokens.front().text == "test" ||
      tokens.front().text == "!") {
    last_ = run == Truth::yes ? test(tokens) : Truth::unknown;
    return;
  }
  std::size_t first = 0;
  while (first < tokens.size() && assigns(tokens[first], run)) ++first;
  last_ = Truth::yes;
  if (first == tokens.size()) return;
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first));
  const std::string& word = tokens.front().text;
  if (is_one_of(word, {"export", "declare", "local", "readonly", "typeset"})) {
    for (const ShellToken& token : tokens) assigns(token, run);
    return;
  }
  if (word == "exit") {
    ended_ = ended_ || frames_.empty();
    return;
  }
  if (word == "unset" && run == Truth::yes)
    for (const ShellToken& token : tokens) variables_.erase(token.text);
  ShellCommand command;
  command.sure = run == Truth::yes;
  for (const ShellToken& token : tokens) {
    std::vector<ShellWord> fields = expand(token);
    std::ranges::move(fields, std::back_inserter(command.words));
  }
  if (!command.words.empty()) commands_.push_back(std::move(command));
}

bool Shell::assigns(const ShellToken& token, Truth run) {
  if (token.kind == Kind::array) {
    std::string_view name = token.text;
    const bool append = name.ends_with('+');
    if (append) name.remove_suffix(1);
    Value value{{}, true};
    for (const ShellToken& item : token.items) {
      std::vector<ShellWord> fields = expand(item);
      std::ranges::move(fields, std::back_inserter(value.items));
    }
    assign(name, append, std::move(value), run);
    return true;
  }
  const Assigned parts = assigned_by(token.text);
  if (parts.name.empty()) return false;
  ShellToken text = token;
  text.text = std::string(parts.value);
  assign(parts.name, parts.append, Value{{expand_whole(text)}, false}, run);
  return true;
}

void Shell::assign(std::string_view name, bool append, Value value, Truth run) {
  if (given_.contains(std::string(name))) return;
  for (ShellWord& item : value.items) item.sure = item.sure && run == Truth::yes;
  kept_items_ += value.items.size();
  if (kept_items_ < kMostItems) assigned_.push_back(value.items);
  Value& old = variables_[std::string(name)];
  if (append && !value.is_array && !old.items.empty()) {
    ShellWord& last = old.is_array ? old.items.front() : old.items.back();
    const ShellWord& more = value.items.front();
    last.text += more.text;
    last.known = last.known && more.known;
    last.sure = last.sure && more.sure;
  } else if (append && value.is_array) {
    old.is_array = true;
    if (old.items.size() + value.items.size() <= kMostItems)
      old.items.insert(old.items.end(), value.items.begin(), value.items.end());
  } else {
    old = std::move(value);
  }
}

Shell::Truth Shell::test(const Tokens& tokens) {
  std::vector<ShellWord> words;
  unset_is_empty_ = true;
  for (const ShellToken& token : tokens)
    words.push_back(token.kind == Kind::word ? expand_whole(token)
                                             : ShellWord{token.text, true, true, token.line, ""});
  unset_is_empty_ = false;
  bool opposed = false;
  std::span<const ShellWord> rest = words;
  while (!rest.empty() && rest.front().text == "!") {
    opposed = !opposed;
    rest = rest.subspan(1);
  }
  if (rest.empty() || !is_one_of(rest.front().text, {"[[", "[", "test"})) return Truth::unknown;
  if (rest.front().text != "test") rest = rest.first(rest.size() - 1);
  const Answer found = answer(rest.empty() ? rest : rest.subspan(1));
  const Answer is = opposed ? opposite(found) : found;
  return is == Answer::yes ? Truth::yes : is == Answer::no ? Truth::no : Truth::unknown;
}

}  // namespace reports::imports
