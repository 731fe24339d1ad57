// Python files as values: what is followed, what is unknown, and what ends in a problem.
#include "reports/imports/python.hpp"

#include <fmt/format.h>

#include "tests/catch.hpp"

using namespace reports::imports;
using ValueKind = PythonValue::Kind;

namespace {

// What the first function of a file returns.
struct Answer {
  std::map<std::string, std::string> given;
  Python python;
  PythonRef result = 0;
  std::string wrong{};
  explicit Answer(const std::string& text, std::map<std::string, std::string> said = {})
      : given(std::move(said)), python("x.py", "Trainer.Config", given) {
    const core::Status read = python.read(text);
    if (!read.ok()) {
      wrong = core::to_text(read.problems());
      return;
    }
    REQUIRE_FALSE(python.functions().empty());
    const auto called = python.call(*python.functions().front());
    if (called.ok())
      result = *called;
    else
      wrong = core::to_text(called.problems());
  }
  const PythonValue& value() const { return python.at(result); }
  const PythonValue* member(std::string_view name) const { return member_of(value(), name); }
  const PythonValue* member_of(const PythonValue& of, std::string_view name) const {
    for (const auto& [key, ref] : of.members)
      if (key == name) return &python.at(ref);
    return nullptr;
  }
};

// One expression as a text: "3", "'x'", "[1, 2]", "?" where it is unknown.
std::string shown(const Python& python, PythonRef ref) {
  const PythonValue& v = python.at(ref);
  if (v.kind == ValueKind::none) return "None";
  if (v.kind == ValueKind::flag) return v.whole != 0 ? "True" : "False";
  if (v.kind == ValueKind::whole) return std::to_string(v.whole);
  if (v.kind == ValueKind::real) return fmt::format("{}", v.real);
  if (v.kind == ValueKind::text) return "'" + v.text + "'";
  if (v.kind == ValueKind::name) return v.text;
  if (v.kind == ValueKind::object) return v.text + "(...)";
  if (v.kind != ValueKind::list) return v.kind == ValueKind::dict ? "{...}" : "?";
  std::string text = "[";
  for (const PythonRef item : v.items) text += (text.size() > 1 ? ", " : "") + shown(python, item);
  return text + "]";
}
std::string value_of(const std::string& expression, const std::string& before = "") {
  const Answer answer("def f():\n" + before + "    return " + expression + "\n");
  return answer.wrong.empty() ? shown(answer.python, answer.result) : answer.wrong;
}
std::string python_refuses(const std::string& text) {
  std::string wrong = Answer(text).wrong;
  CHECK_FALSE(wrong.empty());
  return wrong;
}

}  // namespace

TEST_CASE("Python's literals and the arithmetic of them are worked out") {
  CHECK(value_of("8 * 2048") == "16384");
  CHECK(value_of("1_000 + 24 - 2 * (3 + 4) // 3") == "1020");  // 1024 - 14 // 3 = 1024 - 4
  CHECK(value_of("-7 // 2") == "-4");                          // rounded down, not towards zero
  CHECK(value_of("--5") == "5");
  CHECK(value_of("1 / 4") == "0.25");
  CHECK(value_of("3e-4") == "0.0003");
  CHECK(value_of("(True, False, None,)") == "[True, False, None]");
  CHECK(value_of("[['a'], ['b', \"c\"], []]") == "[['a'], ['b', 'c'], []]");
  CHECK(value_of("('one '  # a comment\n    \"two\"\n    '''\nthree''')") == "'one two\nthree'");
  CHECK(value_of("r'\\d'") == "'\\d'");
  CHECK(value_of("{'a': 1, **{'b': 2}}") == "{...}");
  CHECK(value_of("{'a': 1, 'b': [5, 6]}['b'][1]") == "6");
  CHECK(value_of("a.b.C(1, x=2)") == "a.b.C(...)");
}

TEST_CASE("what a Python file does not state is unknown, and never guessed") {
  for (const char* expression : {"1 if x else 2",
                                 "a and b",
                                 "not a",
                                 "x == 1",
                                 "2 ** 3",
                                 "1 << 3",
                                 "~1",
                                 "f'{x}'",
                                 "b'x'",
                                 "'\\x41'",
                                 "0x10",
                                 "99999999999999999999",
                                 "1 // 0",
                                 "9223372036854775807 + 1",
                                 "1e308 * 10",
                                 "'a' + 'b'",
                                 "[x for x in y]",
                                 "[*a]",
                                 "{1: 2}",
                                 "{1, 2}",
                                 "lambda a, b=1: a",
                                 "x[0]",
                                 "1, 2",
                                 "2j",
                                 "(y := 3)",
                                 "{'a': i for i in z}",
                                 "f.g[1:2]",
                                 "await x",
                                 "..."})
    CHECK((value_of(expression) == "?" ? "" : expression) == std::string());
}

TEST_CASE("names hold references: what one name changes is changed under the others") {
  const Answer answer(
      "from a.b import Trainer, Part as P\nSIZE = 4\n\ndef f() -> Trainer.Config:\n"
      "    \"\"\"A text.\"\"\"\n    part: P = P(x=SIZE)\n    c = Trainer.Config(part=part, "
      "other=P())\n"
      "    part.x = 5; c.other = None\n    c.deep.down = 2 * SIZE\n    return c\n");
  CHECK(answer.value().text == "a.b.Trainer.Config");
  REQUIRE(answer.member("part") != nullptr);
  CHECK(answer.member("part")->text == "a.b.Part");
  CHECK(answer.member_of(*answer.member("part"), "x")->whole == 5);
  CHECK(answer.member("other")->kind == ValueKind::none);
  CHECK(answer.member_of(*answer.member("deep"), "down")->whole == 8);
  CHECK(answer.member_of(*answer.member("deep"), "down")->line == 9);
}

TEST_CASE("functions of the file are followed, with their arguments and defaults") {
  CHECK(value_of("g(2, c=5)", "") == "g(...)");  // from elsewhere
  const Answer answer(
      "def f():\n    c = g(1, c=3)\n    h(c)\n    return c\n\n"
      "def g(a, b=2, *, c=9):\n    return X(a=a, b=b, c=c)\n\ndef h(c):\n    c.a = 7\n");
  CHECK(answer.member("a")->whole == 7);
  CHECK(answer.member("b")->whole == 2);
  CHECK(answer.member("c")->whole == 3);
  CHECK(Answer("def f():\n    return g(1)\ndef g():\n    return 2\n").value().kind ==
        ValueKind::unknown);
  CHECK(Answer("def f():\n    return g()\n@cache\ndef g():\n    return 2\n").value().kind ==
        ValueKind::unknown);
  CHECK(Answer("def f():\n    return g()\ndef g():\n    yield 2\n").value().kind ==
        ValueKind::unknown);
}

TEST_CASE("what a condition or a loop may change is unknown afterwards") {
  for (const char* change :
       {"    if y:\n        c.a = 2\n", "    for i in z: c.a = i\n", "    c.a += 1\n",
        "    while y:\n        if w:\n            pass\n        else:\n            c.a = 3\n",
        "    try:\n        c.a = 1\n    except E as e:\n        pass\n", "    del c.a\n",
        "    (c.a, d) = 1, 2\n", "    match y:\n        case 1:\n            c.a = 2\n",
        "    c.a = 1,\n", "    with y as c:\n        pass\n"}) {
    const Answer answer(fmt::format("def f():\n    c = X(a=1)\n{}    return X(c=c)\n", change));
    INFO(change << answer.wrong);
    const PythonValue* const c = answer.member("c");
    REQUIRE(c != nullptr);
    CHECK((c->kind == ValueKind::unknown || answer.member_of(*c, "a")->kind == ValueKind::unknown));
  }
  CHECK(Answer("def f():\n    if x:\n        return X()\n    return Y()\n").value().kind ==
        ValueKind::unknown);
  CHECK(value_of("a", "    a = [1]\n    a.append(2)\n") == "?");
  CHECK(value_of("a", "    a = [1]\n    b = [a.append(i) for i in z]\n") == "?");
  CHECK(value_of("a", "    a = [1]\n    a[0] = 2\n") == "?");
  CHECK(value_of("a", "    a = 1\n    print((a := 2))\n") == "?");
}

TEST_CASE("a call of a function from elsewhere that may change the configuration is named") {
  const Answer answer(
      "from z import Trainer, patch\ndef f():\n    c = Trainer.Config(a=1)\n    print('x')\n"
      "    size(c.a)\n    patch(c)\n    d = wrap(1, c)\n    return c\n");
  REQUIRE(answer.python.unfollowed().size() == 2);
  CHECK(answer.python.unfollowed()[0].source == "patch(c)");
  CHECK(answer.python.unfollowed()[0].line == 6);
  CHECK(answer.python.unfollowed()[1].source == "wrap(1, c)");
}

TEST_CASE("a function within a function may change what it sees, and its calls are named") {
  const Answer answer(
      "def f():\n    c = X()\n    def g():\n        c.a = 1\n    b = g()\n    return c\n");
  REQUIRE(answer.python.unfollowed().size() == 1);
  CHECK(answer.python.unfollowed()[0].source == "g()");
}

TEST_CASE("a name whose value the user says has it, whatever the file does") {
  const Answer answer("N = int(os.environ['N'])\ndef f():\n    return X(n=2 * N)\n", {{"N", "4"}});
  CHECK(answer.member("n")->whole == 8);
}

TEST_CASE("what is no Python is refused by its line") {
  CHECK(python_refuses("x = 1\ny = (2\n").find("x.py:2") != std::string::npos);
  CHECK(python_refuses("x = (1]\n").find("x.py:1") != std::string::npos);
  CHECK(python_refuses("x = 'a\n").find("x.py:1") != std::string::npos);
  CHECK(python_refuses("x = '''a\n\n").find("x.py:1") != std::string::npos);
  CHECK(python_refuses("x = 1\ny = $\n").find("x.py:2") != std::string::npos);
  CHECK(python_refuses("if x:\n        a = 1\n    b = 2\n").find("x.py:3") != std::string::npos);
}

TEST_CASE("Python that is made to take long ends with a problem in little time") {
  CHECK(python_refuses("x = " + std::string(100'000, '(')).find("brackets") != std::string::npos);
  CHECK(python_refuses("def f():\n    return f()\n").find("deep") != std::string::npos);
  CHECK(python_refuses("def f():\n    return g()\ndef g():\n    return f()\n").find("x.py:") !=
        std::string::npos);
  std::string doubling = "def f0():\n    return 1\n";
  for (int i = 1; i < 16; ++i)
    doubling = fmt::format("def f{0}():\n    return X(a=f{1}(), b=f{1}(), c=f{1}(), d=f{1}())\n", i,
                           i - 1) +
               doubling;
  CHECK(python_refuses(doubling).find("more") != std::string::npos);
  std::string indented;
  for (int i = 0; i < 1000; ++i)
    indented += std::string(static_cast<std::size_t>(i), ' ') + "if x:\n";
  CHECK(python_refuses(indented + std::string(1000, ' ') + "y = 1\n").find("indentation") !=
        std::string::npos);
  std::string words;
  for (int i = 0; i < 300'000; ++i) words += "a\n";
  CHECK(python_refuses(words).find("words") != std::string::npos);
  CHECK(value_of(std::string(10'000, '-') + "1") == "1");
  std::string chain = "a";
  for (int i = 0; i < 20'000; ++i) chain += ".a";
  CHECK(value_of(chain + "()") == "?");
}
