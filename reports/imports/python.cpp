// Values and names of Python, as far as they are followed.
#include "reports/imports/python.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace reports::imports {
namespace {

// More than any configuration needs; few enough that a file ends in a second and in 100 MB.
constexpr std::size_t kMostPythonSteps = std::size_t{1} << 20,
                      kMostPythonValues = std::size_t{1} << 18;
constexpr std::size_t kMostMembers = 1024, kLongestSource = 80, kMostReports = 32;

// The value that a user gives: True, False, None, a number, or a text.
PythonValue given_value(std::string_view text) {
  using Kind = PythonValue::Kind;
  PythonValue value{Kind::text, std::string(text)};
  if (text == "None") value.kind = Kind::none;
  if (text == "True" || text == "False") value.kind = Kind::flag, value.whole = text == "True";
  const char* const end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, value.whole);
      read.ec == std::errc() && read.ptr == end)
    value.kind = Kind::whole;
  else if (const auto real = std::from_chars(text.data(), end, value.real);
           real.ec == std::errc() && real.ptr == end)
    value.kind = Kind::real;
  return value;
}

}  // namespace

bool is_python_name(std::string_view full, std::string_view name) {
  if (!full.ends_with(name)) return false;
  full.remove_suffix(name.size());
  return full.empty() || full.ends_with('.');
}

bool opens_bracket(const PythonToken& t) {
  return t.kind == PythonToken::Kind::op && (t.is("(") || t.is("[") || t.is("{"));
}
bool closes_bracket(const PythonToken& t) {
  return t.kind == PythonToken::Kind::op && (t.is(")") || t.is("]") || t.is("}"));
}
bool ends_expression(const PythonToken& t) {
  using Kind = PythonToken::Kind;
  if (t.kind == Kind::newline || t.kind == Kind::end || t.kind == Kind::indent ||
      t.kind == Kind::dedent)
    return true;
  return closes_bracket(t) ||
         (t.kind == Kind::op && (t.is(",") || t.is(":") || t.is("=") || t.is(";")));
}

Python::Python(std::string name, std::string_view whole,
               const std::map<std::string, std::string>& given)
    : name_(std::move(name)), whole_(whole), given_(&given) {}

core::Status Python::read(std::string_view text) {
  auto tokens = python_tokens(text, name_);
  if (!tokens.ok()) return tokens.problems();
  tokens_ = std::move(tokens).value();
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    if (token(i).kind == PythonToken::Kind::name && token(i + 1).is(":="))
      loose_.emplace(token(i).source);
    if (token(i).is("global") || token(i).is("nonlocal"))
      for (std::size_t k = i + 1; !ends_expression(token(k)) || token(k).is(","); ++k)
        loose_.emplace(token(k).source);
  }
  Frame frame{&globals_};
  at_ = 0;
  run(tokens_.size() - 1, frame);
  unfollowed_outside_ = unfollowed_.size();
  if (problem_) return *problem_;
  return core::Done{};
}

std::vector<const PythonFunction*> Python::functions() const {
  std::vector<const PythonFunction*> all;
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    const auto found = globals_.find(functions_[i].name);
    if (found == globals_.end()) continue;
    const PythonValue& value = at(found->second);
    if (value.kind == Kind::function && value.whole == static_cast<std::int64_t>(i))
      all.push_back(&functions_[i]);
  }
  return all;
}

core::Result<PythonRef> Python::call(const PythonFunction& function) {
  unfollowed_.resize(unfollowed_outside_);
  const PythonRef otherwise = put({Kind::unknown});
  values_[otherwise].line = function.line;
  const PythonRef result =
      invoke(static_cast<std::size_t>(&function - functions_.data()), {}, otherwise);
  if (problem_) return *problem_;
  return result;
}

void Python::stop(int line, std::string expected, std::string found) {
  if (!problem_)
    problem_ =
        core::Problem{fmt::format("{}:{}", name_, line), std::move(expected), std::move(found), ""};
}

bool Python::within_budget(std::size_t tokens) {
  budget_ += tokens;
  if (budget_ > kMostPythonSteps)
    stop(token(at_).line, "a configuration that is read in few steps",
         fmt::format("more than {} steps", kMostPythonSteps));
  return !problem_;
}

std::string Python::source_of(std::size_t begin, std::size_t end) const {
  while (end > begin && token(end - 1).source.empty()) --end;
  if (end == begin) return "";
  const char* const first = token(begin).source.data();
  const std::string_view last = token(end - 1).source;
  const std::string_view all(first, static_cast<std::size_t>(last.data() + last.size() - first));
  std::string text;
  for (const char c : all.substr(0, 8 * kLongestSource)) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank)
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
    if (text.size() == kLongestSource) break;
  }
  while (text.size() == kLongestSource && (static_cast<unsigned char>(text.back()) & 0x80U) != 0)
    text.pop_back();
  return text;
}

PythonRef Python::put(PythonValue value) {
  if (values_.size() == kMostPythonValues)
    stop(value.line, fmt::format("at most {} values", kMostPythonValues), "more of them");
  if (problem_ && !values_.empty()) return values_.size() - 1;
  values_.push_back(std::move(value));
  return values_.size() - 1;
}

PythonRef Python::unknown(std::size_t begin, std::size_t end) {
  PythonValue value;
  value.source = source_of(begin, end);
  value.line = token(begin).line;
  return put(std::move(value));
}

std::optional<PythonRef> Python::bound(std::string_view name, const Frame& frame) const {
  if (const auto own = frame.names->find(name); own != frame.names->end()) return own->second;
  if (const auto all = globals_.find(name); all != globals_.end()) return all->second;
  return std::nullopt;
}

PythonRef Python::lookup(std::string_view name, const Frame& frame) {
  if (loose_.contains(name)) return put({});
  const auto found = bound(name, frame);
  return found ? *found : put({Kind::name, std::string(name)});
}

void Python::bind(std::string_view name, PythonRef value, Frame& frame) {
  const auto given = given_->find(std::string(name));
  if (given != given_->end()) {
    PythonValue said = given_value(given->second);
    said.line = at(value).line;
    value = put(std::move(said));
  }
  frame.names->insert_or_assign(std::string(name), value);
}

PythonRef Python::member_or_default(PythonRef base, std::string_view name, int line) {
  for (const auto& [key, ref] : at(base).members)
    if (key == name) return ref;
  PythonValue value{Kind::object};
  const std::string& of = at(base).source;
  value.source = fmt::format("{}.{}", of.substr(0, kLongestSource), name.substr(0, kLongestSource));
  value.line = line;
  value.default_of = base;
  const PythonRef made = put(std::move(value));
  set_member(base, name, made, line);
  return made;
}

void Python::set_member(PythonRef base, std::string_view name, PythonRef value, int line) {
  PythonValue& of = values_[base];
  if (of.kind != Kind::object && of.kind != Kind::dict) return;
  for (auto& [key, ref] : of.members)
    if (key == name) {
      ref = value;
      return;
    }
  if (of.members.size() == kMostMembers)
    return stop(line, fmt::format("at most {} names in a call", kMostMembers), "more of them");
  of.members.emplace_back(name, value);
}

void Python::lose(PythonRef ref, std::size_t begin, std::size_t end) {
  if (!may_change(ref)) return;
  PythonValue lost;
  lost.source = source_of(begin, end);
  lost.line = token(begin).line;
  values_[ref] = std::move(lost);
}

bool Python::may_change(PythonRef ref) const {
  const Kind kind = at(ref).kind;
  return kind == Kind::object || kind == Kind::list || kind == Kind::dict;
}

bool Python::is_whole(PythonRef ref) const {
  return at(ref).kind == Kind::object && is_python_name(at(ref).text, whole_);
}

void Python::report(std::size_t begin, std::size_t end) {
  if (unfollowed_.size() < kMostReports)
    unfollowed_.push_back({source_of(begin, end), token(begin).line});
}

// Where the line ends, or the statement: brackets and the lines within them are passed over.
std::size_t Python::line_end(std::size_t at, bool one_statement) {
  const std::size_t from = at;
  while (token(at).kind != PythonToken::Kind::newline && token(at).kind != PythonToken::Kind::end &&
         !(one_statement && token(at).is(";")))
    at = opens_bracket(token(at)) ? token(at).partner + 1 : at + 1;
  within_budget(at - from);
  return at;
}

// The next such word outside of brackets and before any lambda; `end` where there is none.
std::size_t Python::next_at_depth(std::size_t at, std::size_t end, std::string_view word) {
  while (at < end && !token(at).is("lambda")) {
    if (token(at).is(word)) return at;
    at = opens_bracket(token(at)) ? token(at).partner + 1 : at + 1;
  }
  return end;
}

void Python::scan(std::size_t begin, std::size_t end, Frame& frame) {
  if (!within_budget(end - begin)) return;
  for (std::size_t i = begin; i < end && !problem_; ++i) {
    if (token(i).kind != PythonToken::Kind::name || (i > 0 && token(i - 1).is("."))) continue;
    std::size_t open = i + 1;
    while (open + 1 < end && token(open).is(".") && token(open + 1).kind == PythonToken::Kind::name)
      open += 2;
    if (open < end && token(open).is("(")) scan_call(i, open, frame);
  }
}

void Python::scan_call(std::size_t begin, std::size_t open, Frame& frame) {
  const std::size_t close = token(open).partner;
  const auto first = bound(token(begin).source, frame);
  if (first && may_change(*first) && open > begin + 1) {
    PythonRef base = *first;
    for (std::size_t i = begin + 2; i + 1 < open && at(base).kind == Kind::object; i += 2)
      base = member_or_default(base, token(i).source, token(i).line);
    return lose(base, begin, close + 1);
  }
  if (!within_budget(close - open)) return;
  for (std::size_t i = open + 1; i < close; ++i) {
    const PythonToken& next = token(i + 1);
    if (token(i).kind != PythonToken::Kind::name || token(i - 1).is(".") || next.is("=") ||
        next.is(".") || next.is("("))
      continue;
    const auto given = bound(token(i).source, frame);
    if (given && may_change(*given)) return report(begin, close + 1);
  }
}

}  // namespace reports::imports
