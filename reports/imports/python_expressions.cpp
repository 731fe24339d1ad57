// Expressions of Python that a configuration is written with: The Python Language Reference 3.12,
// chapter 6, the rest of which is passed over.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "reports/imports/python.hpp"

namespace reports::imports {

using TokenKind = PythonToken::Kind;

// Whether nothing in it decides or compares: its parts are all read, each once.
bool Python::is_plain() const {
  static constexpr std::array<std::string_view, 11> kDeciding{
      "if", "and", "or", "not", "in", "is", "for", "lambda", "await", "yield", "async"};
  for (std::size_t i = at_; !ends_expression(token(i));
       i = opens_bracket(token(i)) ? token(i).partner + 1 : i + 1)
    if (token(i).kind == TokenKind::name &&
        std::ranges::find(kDeciding, token(i).source) != kDeciding.end())
      return false;
  return true;
}

PythonRef Python::expression(Frame& frame) {
  const std::size_t from = at_;
  comprehension_ = false;
  if (!within_budget(1)) return put({});
  if (is_plain()) {
    const PythonRef value = sum(frame);
    comprehension_ = false;
    if (ends_expression(token(at_))) return value;
  }
  skip(frame);
  return unknown(from, at_);
}

void Python::skip(Frame& frame) {
  const std::size_t from = at_;
  std::size_t lambdas = 0;
  bool loop = false;
  while (token(at_).kind != TokenKind::newline && token(at_).kind != TokenKind::end &&
         !closes_bracket(token(at_))) {
    const PythonToken& t = token(at_);
    if (lambdas == 0 && ends_expression(t)) break;
    if (t.is("lambda"))
      ++lambdas;
    else if (lambdas > 0 && t.is(":"))
      --lambdas;
    loop = loop || t.is("for");
    at_ = opens_bracket(t) ? t.partner + 1 : at_ + 1;
  }
  scan(from, at_, frame);
  comprehension_ = loop;
}

PythonRef Python::sum(Frame& frame) {
  const std::size_t from = at_;
  PythonRef value = product(frame);
  while ((token(at_).is("+") || token(at_).is("-")) && !problem_) {
    const char op = token(at_++).source[0];
    value = calculated(op, value, product(frame), from);
  }
  return value;
}

PythonRef Python::product(Frame& frame) {
  const std::size_t from = at_;
  PythonRef value = unary(frame);
  while ((token(at_).is("*") || token(at_).is("/") || token(at_).is("//")) && !problem_) {
    const char op = token(at_).is("//") ? 'f' : token(at_).source[0];
    ++at_;
    value = calculated(op, value, unary(frame), from);
  }
  return value;
}

PythonRef Python::unary(Frame& frame) {
  const std::size_t from = at_;
  bool negative = false;
  for (; token(at_).is("-") || token(at_).is("+"); ++at_) negative ^= token(at_).is("-");
  const PythonRef value = postfix(frame);
  if (!negative) return value;
  PythonValue zero{Kind::whole};
  zero.line = token(from).line;
  return calculated('-', put(std::move(zero)), value, from);
}

// a and b, or unknown where it is no number that a configuration has.
PythonRef Python::calculated(char op, PythonRef a, PythonRef b, std::size_t from) {
  const PythonValue &x = at(a), &y = at(b);
  const bool numbers = (x.kind == Kind::whole || x.kind == Kind::real) &&
                       (y.kind == Kind::whole || y.kind == Kind::real);
  if (!numbers) return unknown(from, at_);
  PythonValue value{Kind::whole};
  value.line = token(from).line;
  if (x.kind == Kind::whole && y.kind == Kind::whole && op != '/') {
    bool wrong = op == 'f' && (y.whole == 0 || y.whole == -1);
    if (op == '+') wrong = __builtin_add_overflow(x.whole, y.whole, &value.whole);
    if (op == '-') wrong = __builtin_sub_overflow(x.whole, y.whole, &value.whole);
    if (op == '*') wrong = __builtin_mul_overflow(x.whole, y.whole, &value.whole);
    if (op == 'f' && !wrong) {
      value.whole = x.whole / y.whole;
      if (x.whole % y.whole != 0 && (x.whole < 0) != (y.whole < 0)) --value.whole;
    }
    return wrong ? unknown(from, at_) : put(std::move(value));
  }
  const double p = x.kind == Kind::whole ? static_cast<double>(x.whole) : x.real;
  const double q = y.kind == Kind::whole ? static_cast<double>(y.whole) : y.real;
  if (op == 'f' || (op == '/' && q == 0)) return unknown(from, at_);
  value.kind = Kind::real;
  value.real = op == '+' ? p + q : op == '-' ? p - q : op == '*' ? p * q : p / q;
  return std::isfinite(value.real) ? put(std::move(value)) : unknown(from, at_);
}

PythonRef Python::number() {
  std::string digits;
  for (const char c : token(at_).source)
    if (c != '_') digits += c;
  const char* const end = digits.data() + digits.size();
  PythonValue value{Kind::whole};
  value.line = token(at_).line;
  const std::size_t from = at_++;
  const auto whole = std::from_chars(digits.data(), end, value.whole);
  if (whole.ec == std::errc() && whole.ptr == end) return put(std::move(value));
  value.kind = Kind::real;
  const auto real = std::from_chars(digits.data(), end, value.real);
  if (real.ec == std::errc() && real.ptr == end && digits.find_first_of(".eE") != digits.npos)
    return put(std::move(value));
  return unknown(from, at_);  // in another base, too large, or imaginary
}

PythonRef Python::postfix(Frame& frame) {
  const std::size_t from = at_;
  PythonRef value = primary(frame);
  while (!problem_ && within_budget(1)) {
    const Kind kind = at(value).kind;
    if (token(at_).is(".") && token(at_ + 1).kind == TokenKind::name) {
      if (token(at_ + 2).is("(") && kind != Kind::name)
        value = method_call(value, from, frame);
      else
        value = attribute(value, from);
    } else if (token(at_).is("[")) {
      value = subscript(value, from, frame);
    } else if (token(at_).is("(")) {
      value = call_of(value, from, frame);
    } else {
      break;
    }
  }
  return value;
}

PythonRef Python::attribute(PythonRef base, std::size_t from) {
  constexpr std::size_t kLongestName = 1024;
  const PythonToken& name = token(at_ + 1);
  at_ += 2;
  if (at(base).kind == Kind::object) return member_or_default(base, name.source, name.line);
  if (at(base).kind != Kind::name || at(base).text.size() > kLongestName) return unknown(from, at_);
  PythonValue value{Kind::name, fmt::format("{}.{}", at(base).text, name.source)};
  value.line = name.line;
  return put(std::move(value));
}

// A method may change what it is of.
PythonRef Python::method_call(PythonRef base, std::size_t from, Frame& frame) {
  at_ += 2;
  const Arguments given = arguments(frame);
  lose(base, from, at_);
  if (std::ranges::any_of(given.items, [&](PythonRef ref) { return is_whole(ref); }))
    report(from, at_);
  return unknown(from, at_);
}

PythonRef Python::subscript(PythonRef base, std::size_t from, Frame& frame) {
  const std::size_t index = at_ + 1, close = token(at_).partner;
  at_ = close + 1;
  if (close == index + 1) {
    if (at(base).kind == Kind::dict && token(index).kind == TokenKind::text)
      for (const auto& [key, ref] : at(base).members)
        if (key == token(index).text) return ref;
    std::size_t place = 0;
    const std::string_view digits = token(index).source;
    const char* const end = digits.data() + digits.size();
    if (at(base).kind == Kind::list && token(index).kind == TokenKind::number &&
        std::from_chars(digits.data(), end, place).ptr == end && place < at(base).items.size())
      return at(base).items[place];
  }
  scan(index, close, frame);
  return unknown(from, at_);
}

PythonRef Python::call_of(PythonRef callee, std::size_t from, Frame& frame) {
  const Kind kind = at(callee).kind;
  const bool stands_alone = from == statement_ && ends_expression(token(token(at_).partner + 1));
  const Arguments given = arguments(frame);
  const PythonRef otherwise = unknown(from, at_);
  if (problem_) return otherwise;
  if (kind == Kind::function) {
    const auto function = static_cast<std::size_t>(at(callee).whole);
    const PythonRef result = invoke(function, given, otherwise);
    if (result != otherwise || problem_) return result;
  }
  // A function within a function may change what it sees around it.
  bool gets_any = kind != Kind::name, gets_whole = kind == Kind::unknown;
  const auto note = [&](PythonRef ref) {
    gets_any = gets_any || may_change(ref);
    gets_whole = gets_whole || is_whole(ref);
  };
  for (const PythonRef ref : given.items) note(ref);
  for (const auto& [key, ref] : given.named) note(ref);
  if (gets_whole || (stands_alone && gets_any)) report(from, at_);
  if (kind != Kind::name) return otherwise;
  PythonValue object{Kind::object, at(callee).text};
  object.items = given.items;
  object.source = at(otherwise).source;
  object.line = token(from).line;
  const PythonRef made = put(std::move(object));
  for (const auto& [key, ref] : given.named) set_member(made, key, ref, token(from).line);
  if (!given.whole) set_member(made, "**", otherwise, token(from).line);
  return made;
}

Python::Arguments Python::arguments(Frame& frame) {
  Arguments all;
  const std::size_t close = token(at_).partner;
  for (++at_; at_ < close && !problem_;) {
    if (token(at_).is("**")) {
      ++at_;
      const PythonRef more = expression(frame);
      const auto& members = at(more).members;
      within_budget(4 * members.size());
      if (at(more).kind == Kind::dict)
        all.named.insert(all.named.end(), members.begin(), members.end());
      else
        all.whole = false;
    } else if (token(at_).is("*")) {
      ++at_;
      expression(frame);
      all.whole = false;
    } else if (token(at_).kind == TokenKind::name && token(at_ + 1).is("=")) {
      const std::string name(token(at_).source);
      at_ += 2;
      all.named.emplace_back(name, expression(frame));
    } else {
      all.items.push_back(expression(frame));
    }
    if (at_ < close) ++at_;  // the comma
  }
  at_ = close + 1;
  return all;
}

PythonRef Python::primary(Frame& frame) {
  const PythonToken& t = token(at_);
  if (t.kind == TokenKind::number) return number();
  if (t.kind == TokenKind::text || t.kind == TokenKind::opaque) return texts();
  if (t.kind == TokenKind::name) return named(frame);
  if (t.is("(") || t.is("[")) return bracketed(frame);
  if (t.is("{")) return dict_of(frame);
  const std::size_t from = at_;
  if (!ends_expression(t)) ++at_;
  return unknown(from, at_);
}

// Texts in a row are one.
PythonRef Python::texts() {
  const std::size_t from = at_;
  PythonValue value{Kind::text};
  value.line = token(at_).line;
  bool known = true;
  for (; token(at_).kind == TokenKind::text || token(at_).kind == TokenKind::opaque; ++at_) {
    known = known && token(at_).kind == TokenKind::text;
    value.text += token(at_).text;
  }
  return known ? put(std::move(value)) : unknown(from, at_);
}

PythonRef Python::named(Frame& frame) {
  const PythonToken& t = token(at_++);
  PythonValue value{Kind::flag};
  value.line = t.line;
  if (t.is("None")) value.kind = Kind::none;
  value.whole = t.is("True");
  if (t.is("None") || t.is("True") || t.is("False")) return put(std::move(value));
  const PythonRef found = lookup(t.source, frame);
  if (at(found).kind != Kind::unknown || !at(found).source.empty()) return found;
  return unknown(at_ - 1, at_);
}

// A list, a tuple, or an expression in brackets.
PythonRef Python::bracketed(Frame& frame) {
  const std::size_t from = at_, close = token(at_).partner;
  const bool round = token(at_).is("(");
  PythonValue value{Kind::list};
  value.line = token(at_).line;
  bool known = true, comma = !round;
  for (++at_; at_ < close && !problem_;) {
    if (token(at_).is("*")) ++at_, known = false;
    value.items.push_back(expression(frame));
    known = known && !comprehension_;
    if (at_ == close) break;
    known = known && token(at_).is(",");
    comma = true;
    ++at_;
  }
  at_ = close + 1;
  comprehension_ = false;
  if (!known) return unknown(from, at_);
  if (!comma && value.items.size() == 1) return value.items.front();
  return put(std::move(value));
}

PythonRef Python::dict_of(Frame& frame) {
  const std::size_t from = at_, close = token(at_).partner;
  PythonValue empty{Kind::dict};
  empty.line = token(at_).line;
  const PythonRef made = put(std::move(empty));
  bool known = true;
  for (++at_; at_ < close && !problem_; ++at_) {
    const int line = token(at_).line;
    if (token(at_).is("**")) {
      ++at_;
      const PythonRef more = expression(frame);
      known = known && at(more).kind == Kind::dict;
      if (!within_budget(4 * at(more).members.size())) break;
      const auto members = at(more).members;
      for (const auto& [key, ref] : members) set_member(made, key, ref, line);
      continue;
    }
    const PythonRef key = expression(frame);
    known = known && at(key).kind == Kind::text && token(at_).is(":");
    if (at_ < close) ++at_;
    const PythonRef value = expression(frame);
    known = known && !comprehension_;
    if (known) set_member(made, at(key).text, value, line);
    known = known && (at_ == close || token(at_).is(","));
    if (at_ == close) break;
  }
  at_ = close + 1;
  comprehension_ = false;
  return known ? made : unknown(from, at_);
}

}  // namespace reports::imports
