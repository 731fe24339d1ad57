// Statements of Python that a configuration is written with: The Python Language Reference 3.12,
// chapters 7 and 8. What a condition or a loop guards is not decided here: whatever is set there
// is unknown afterwards.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "reports/imports/python.hpp"

namespace reports::imports {
namespace {

using TokenKind = PythonToken::Kind;

constexpr std::size_t kMostCalls = 16, kMostParameters = 256;

template <std::size_t kCount>
bool is_any(const PythonToken& t, const std::array<std::string_view, kCount>& words) {
  return (t.kind == TokenKind::name || t.kind == TokenKind::op) &&
         std::ranges::find(words, t.source) != words.end();
}

constexpr std::array<std::string_view, 9> kGuards{"if",   "elif", "else",   "for",    "while",
                                                  "with", "try",  "except", "finally"};
constexpr std::array<std::string_view, 6> kWithoutValue{"pass",     "break",  "continue",
                                                        "nonlocal", "global", "assert"};
constexpr std::array<std::string_view, 12> kChanging{
    "+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", ">>=", "<<="};

}  // namespace

void Python::run(std::size_t end, Frame& frame) {
  while (at_ < end && !frame.returned && within_budget(1)) {
    const std::size_t before = at_;
    statement(frame);
    at_ = std::max(at_, before + 1);
  }
}

// The block behind a line, if it has one.
void Python::skip_block(std::size_t end) {
  at_ = end + 1;
  if (at_ < tokens_.size() && token(at_).kind == TokenKind::indent) at_ = token(at_).partner + 1;
}

void Python::statement(Frame& frame) {
  bool followed = !frame.undecided && frame.names == &globals_;
  while (token(at_).is("@") || token(at_).is("async")) {
    followed = false;
    at_ = token(at_).is("@") ? line_end(at_) + 1 : at_ + 1;
  }
  if (ends_expression(token(at_))) return;
  const std::size_t end = line_end(at_);
  const bool block = end + 1 < tokens_.size() && token(end + 1).kind == TokenKind::indent;
  if (token(at_).is("def")) return define(followed, frame);
  if (token(at_).is("class")) {
    if (token(at_ + 1).kind == TokenKind::name)
      bind(token(at_ + 1).source, unknown(at_, at_ + 2), frame);
    return skip_block(end);
  }
  if (block || is_any(token(at_), kGuards)) return compound(end, frame);
  simple(line_end(at_, true), frame);
}

// Names that a loop, a `with` or a `case` sets.
void Python::header(std::size_t end, Frame& frame) {
  scan(at_, end, frame);
  const bool all = token(at_).is("case");
  bool targets = false;
  for (std::size_t i = at_; i < end; ++i) {
    if (token(i).is("for")) targets = true;
    if (token(i).is("in")) targets = false;
    const bool named = i > at_ && token(i - 1).is("as");
    if (token(i).kind == TokenKind::name && (targets || named || all) &&
        bound(token(i).source, frame))
      bind(token(i).source, unknown(i, i + 1), frame);
  }
}

void Python::compound(std::size_t end, Frame& frame) {
  std::size_t colon = next_at_depth(at_, end, ":");
  const bool block = end + 1 < tokens_.size() && token(end + 1).kind == TokenKind::indent;
  if (block) colon = end;
  header(colon, frame);
  const bool before = std::exchange(frame.undecided, true);
  if (block) {
    const std::size_t close = token(end + 1).partner;
    at_ = end + 2;
    run(close, frame);
    at_ = close + 1;
  } else {
    for (at_ = std::min(colon + 1, end); at_ < end && !problem_; ++at_)
      simple(std::min(end, line_end(at_, true)), frame);
    at_ = end + 1;
  }
  frame.undecided = before;
}

void Python::simple(std::size_t end, Frame& frame) {
  const PythonToken& t = token(at_);
  const std::size_t begin = at_;
  if (t.is("import") || t.is("from")) {
    import_names(end, frame);
  } else if (t.is("return")) {
    returns(end, frame);
  } else if (t.is("raise")) {
    if (!frame.undecided) frame.returned = frame.loose = true;
  } else if (t.is("del")) {
    assign(begin + 1, end, unknown(begin, end), frame);
  } else if (!is_any(t, kWithoutValue)) {
    const std::size_t equals = next_at_depth(begin, end, "=");
    std::size_t changes = begin;
    while (changes < end && !is_any(token(changes), kChanging))
      changes = opens_bracket(token(changes)) ? token(changes).partner + 1 : changes + 1;
    if (equals < end) {
      assignment(equals, end, frame);
    } else if (changes < end) {
      scan(changes, end, frame);
      assign(begin, changes, unknown(begin, end), frame);
    } else if (frame.undecided) {
      scan(begin, end, frame);
    } else {
      statement_ = begin;
      expression(frame);
      if (at_ < end) scan(at_, end, frame);
    }
  }
  at_ = end;
}

void Python::returns(std::size_t end, Frame& frame) {
  const std::size_t begin = ++at_;
  if (frame.undecided) {
    frame.loose = true;
    return scan(begin, end, frame);
  }
  frame.returned = true;
  if (begin == end) return;
  frame.result = expression(frame);
  if (at_ != end) frame.result = unknown(begin, end);
}

void Python::assignment(std::size_t equals, std::size_t end, Frame& frame) {
  std::vector<std::pair<std::size_t, std::size_t>> targets{{at_, equals}};
  std::size_t value = equals + 1;
  for (std::size_t next = value; (next = next_at_depth(value, end, "=")) < end; value = next + 1)
    targets.emplace_back(value, next);
  const std::size_t begin = at_;
  PythonRef ref = 0;
  if (frame.undecided) {
    scan(value, end, frame);
    ref = unknown(begin, end);
  } else {
    at_ = value;
    ref = expression(frame);
    if (at_ != end) {  // a tuple
      scan(std::min(at_, end), end, frame);
      ref = unknown(value, end);
    }
  }
  for (const auto& [from, to] : targets) assign(from, to, ref, frame);
}

void Python::lose_names(std::size_t begin, std::size_t end, Frame& frame) {
  for (std::size_t i = begin; i < end && within_budget(1); ++i)
    if (token(i).kind == TokenKind::name && !token(i - (i > 0 ? 1 : 0)).is("."))
      bind(token(i).source, unknown(begin, end), frame);
}

// To NAME, NAME.NAME... or NAME[...], each perhaps with an annotation. Of several, all are lost.
void Python::assign(std::size_t begin, std::size_t end, PythonRef value, Frame& frame) {
  end = next_at_depth(begin, end, ":");
  if (begin >= end || token(begin).kind != TokenKind::name) return lose_names(begin, end, frame);
  if (begin + 1 == end) return bind(token(begin).source, value, frame);
  PythonRef base = lookup(token(begin).source, frame);
  for (std::size_t i = begin + 1; i < end; i += 2) {
    if (token(i).is("[")) return lose(base, begin, end);
    if (!token(i).is(".") || token(i + 1).kind != TokenKind::name)
      return lose_names(begin, end, frame);
    const PythonToken& name = token(i + 1);
    if (i + 2 == end) return set_member(base, name.source, value, name.line);
    if (at(base).kind != Kind::object) return;
    base = member_or_default(base, name.source, name.line);
  }
}

// import a.b, import a.b as c; from a.b import c, d as e; from . import c.
void Python::import_names(std::size_t end, Frame& frame) {
  const bool from = token(at_).is("from");
  const auto path = [&](std::string text) {
    for (; at_ < end && !token(at_).is("import") && !token(at_).is("as") && !token(at_).is(",") &&
           text.size() < 1024;
         ++at_)
      text += token(at_).source;
    return text;
  };
  ++at_;
  std::string module;
  if (from) module = path("") + ".", ++at_;
  while (at_ < end && within_budget(1)) {
    if (token(at_).kind != TokenKind::name) {
      ++at_;  // a bracket, a comma
      continue;
    }
    const PythonToken& first = token(at_);
    PythonValue value{Kind::name, from ? module + std::string(first.source) : path("")};
    if (from) ++at_;
    std::string_view name = first.source;
    if (token(at_).is("as")) {
      name = token(at_ + 1).source;
      at_ += 2;
    } else if (!from) {
      value.text = first.source;  // import a.b binds a
    }
    value.line = first.line;
    bind(name, put(std::move(value)), frame);
  }
}

void Python::define(bool followed, Frame& frame) {
  const std::size_t end = line_end(at_);
  const PythonToken& name = token(at_ + 1);
  if (name.kind != TokenKind::name || !token(at_ + 2).is("(")) return skip_block(end);
  PythonFunction made;
  made.name = name.source;
  made.line = name.line;
  const std::size_t close = token(at_ + 2).partner;
  for (std::size_t i = close + 1;
       token(close + 1).is("->") && i + 1 < end && !token(i + 1).is(":");)
    made.returns += token(++i).source;
  const std::size_t from = at_;
  if (followed) {
    at_ += 3;
    parameters_of(made, close, frame);
  }
  const std::size_t colon = next_at_depth(close, end, ":");
  at_ = end + 1;
  const bool block = at_ < tokens_.size() && token(at_).kind == TokenKind::indent;
  made.body = block ? at_ + 1 : colon + 1;
  made.end = block ? token(at_).partner : end;
  within_budget(made.end - made.body);
  for (std::size_t i = made.body; i < made.end; ++i)
    if (token(i).is("yield")) made.followed = false;
  skip_block(end);
  if (!followed) made.followed = false;
  if (frame.undecided || frame.names != &globals_)
    return bind(made.name, unknown(from, close + 1), frame);
  PythonValue value{Kind::function, "", static_cast<std::int64_t>(functions_.size())};
  value.line = made.line;
  bind(made.name, put(std::move(value)), frame);
  functions_.push_back(std::move(made));
}

void Python::parameters_of(PythonFunction& function, std::size_t close, Frame& frame) {
  bool keywords = false;
  while (at_ < close && within_budget(1)) {
    if (token(at_).is("*") || token(at_).is("**") || token(at_).is("/")) {
      keywords = keywords || token(at_).is("*");
      if (token(at_ + 1).kind == TokenKind::name) function.followed = false;  // *args
      ++at_;
    } else if (token(at_).kind == TokenKind::name) {
      PythonFunction::Parameter made{std::string(token(at_).source), {}, keywords};
      const std::size_t comma = std::min(next_at_depth(at_, close, ","), close);
      const std::size_t equals = next_at_depth(at_, comma, "=");
      at_ = std::max(at_ + 1, comma);
      if (equals < comma) {
        at_ = equals + 1;
        made.by_default = expression(frame);
      }
      function.parameters.push_back(std::move(made));
    } else {
      ++at_;
    }
  }
  if (function.parameters.size() > kMostParameters) function.followed = false;
}

// `otherwise` where the function is not followed, or is not called as it says.
PythonRef Python::invoke(std::size_t index, const Arguments& given, PythonRef otherwise) {
  const PythonFunction& function = functions_[index];  // none is added while one runs
  if (!function.followed || !given.whole || !within_budget(function.parameters.size()))
    return otherwise;
  if (calls_ == kMostCalls) {
    stop(at(otherwise).line,
         fmt::format("functions that call each other {} deep at most", kMostCalls), "more of them");
    return otherwise;
  }
  Names names;
  Frame frame{&names};
  auto item = given.items.begin();
  auto left = given.named;
  for (const PythonFunction::Parameter& parameter : function.parameters) {
    std::optional<PythonRef> value = parameter.by_default;
    const auto named = std::ranges::find(
        left, parameter.name, [](const auto& pair) -> const std::string& { return pair.first; });
    if (!parameter.keyword_only && item != given.items.end()) {
      value = *item++;
    } else if (named != left.end()) {
      value = named->second;
      left.erase(named);
    }
    if (!value) return otherwise;
    bind(parameter.name, *value, frame);
  }
  if (item != given.items.end() || !left.empty()) return otherwise;
  const std::size_t back = at_, statement = statement_;
  ++calls_;
  at_ = function.body;
  run(function.end, frame);
  --calls_;
  at_ = back;
  statement_ = statement;
  if (frame.loose) {
    PythonValue lost;
    lost.source = at(otherwise).source;
    lost.line = function.line;
    return put(std::move(lost));
  }
  return frame.result.value_or(put({Kind::none}));
}

}  // namespace reports::imports
