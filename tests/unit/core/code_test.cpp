#include "core/code.hpp"

#include <cstdio>

#include "core/csv.hpp"
#include "core/json.hpp"
#include "core/untrusted.hpp"
#include "tests/catch.hpp"

using namespace core;

namespace {

// What bash prints of a word.
std::string echoed(const std::string& word) {
  const std::string script =
      "exec bash <<'END_OF_SCRIPT'\nprintf %s " + word + "\nEND_OF_SCRIPT\n";
  FILE* const pipe = ::popen(script.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  REQUIRE(::pclose(pipe) == 0);
  return out;
}

}  // namespace

// There is no way into code but by an encoder: none of these would compile.
static_assert(!CodeArgument<std::string>);
static_assert(!CodeArgument<const std::string&>);
static_assert(!CodeArgument<std::string_view>);
static_assert(!CodeArgument<const char*>);
static_assert(!std::is_constructible_v<Code, std::string>);
static_assert(!std::is_constructible_v<Code, std::string_view>);
static_assert(!std::is_constructible_v<Code, const char*>);
static_assert(!std::is_assignable_v<Code&, std::string>);

TEST_CASE("code is made of literals, numbers and code") {
  Code all = code("{} {:.1f} {}", 3, 0.25, Code::shell("a b"));
  all += "\n";
  CHECK(all.text() == "3 0.2 'a b'\n");
  CHECK((Code("x") + all).text() == "x3 0.2 'a b'\n");
  CHECK(Code("a\n\n b\n").indented(2).text() == "  a\n\n   b\n");
  CHECK(fmt::format("<{}>", Code("x")) == "<x>");
}

TEST_CASE("a shell reads a word back as it was") {
  for (const char* text : {"plain-1.5,b", "", " ", "a b", "'", "$(touch x)", "`id`", "a'b\"c\\d",
                           "x\ntouch PWNED #", "-n", "*", "~", "Größe", "!", "a;b&c|d",
                           "\x1b]0;'\\\x07", "\u202e\u009b12", "\xff\xfe" "9"}) {
    CAPTURE(text);
    const std::string word = Code::shell(text).text();
    CHECK(echoed(word) == text);
    CHECK(!hidden_in(word));
  }
  CHECK(Code::shell("1.5").text() == "1.5");
}

TEST_CASE("a TOML string stays on its line and inside its quotes") {
  CHECK(Code::toml("plain").text() == "\"plain\"");
  CHECK(Code::toml("a\"b\\c").text() == "\"a\\\"b\\\\c\"");
  CHECK(Code::toml("x\n[evil]\x1b\u202e").text() == "\"x\\u000A[evil]\\u001B\\u202E\"");
}

TEST_CASE("a YAML scalar is quoted where it would be anything but that text") {
  for (const char* plain : {"registry/titan:0.2", "REPLACE_WITH_IMAGE", "a@sha256:0f"})
    CHECK(Code::yaml(plain).text() == plain);
  for (const char* other :
       {"",   "1.5", "yes",   "No",      "null", "~",  "a: b", "a:", "a #b", "- a",
        "[a", "a b", "\"a\"", "x\ny: z", "&a",   "*a", "!a",   "%a", "0x10", "1:30"}) {
    CAPTURE(other);
    CHECK(Code::yaml(other).text() == dump(Json(other)));
  }
}

TEST_CASE("markup, control characters and broken UTF-8 are written as text on a page") {
  const auto html = [](std::string_view text) { return Code::html(text).text(); };
  CHECK(html("<b a=\"1\" c='2'>&") == "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
  CHECK(html(std::string_view("a\0b\x1b\x7f", 5)) == "a\ufffdb\ufffd\ufffd");
  CHECK(html("\xff\xc3(\xed\xa0\x80") == "\ufffd\ufffd(\ufffd\ufffd\ufffd");
  CHECK(html("\u202etxt") == "\ufffdtxt");
  CHECK(html("\u00e9 \u4e2d \U0001f600\n") == "\u00e9 \u4e2d \U0001f600\n");
  CHECK(html("\xc2\x85") == "\ufffd");  // a control character of two bytes
}

TEST_CASE("JSON in a script element has none of the characters that could end it") {
  const std::string text = Code::script(Json::object({{"</script>&", "<!--\u2028\u2029"}})).text();
  CHECK(text.find_first_of("<>&") == std::string::npos);
  CHECK(text.find("\u2028") == std::string::npos);
  // Still the same value.
  const Result<Json> again = parse_json(text, "page");
  REQUIRE(again.ok());
  CHECK(again->at("</script>&").as_string() == "<!--\u2028\u2029");
}

TEST_CASE("Markdown shows a text as it is, in one line") {
  const auto markdown = [](std::string_view text) { return Code::markdown(text).text(); };
  CHECK(markdown("a|b\n\x1b") == "a\\|b \ufffd");
  CHECK(markdown("all_reduce of \"x\" and 'y'") == "all_reduce of \"x\" and 'y'");
  CHECK(markdown("_a_ *b* `c` [d](e) ~f~") == "\\_a\\_ \\*b\\* \\`c\\` \\[d\\](e) \\~f\\~");
  CHECK(markdown("<img onerror=x> &lt;") == "&lt;img onerror=x&gt; &amp;lt;");
  CHECK(markdown_row("a|b", 2, Code("**c**"), std::string("d")).text() ==
        "| a\\|b | 2 | **c** | d |\n");
}

TEST_CASE("a field of CSV is read back, and is no formula") {
  const auto csv = [](std::string_view text) { return Code::csv(text).text(); };
  CHECK(csv("=HYPERLINK(1)") == "'=HYPERLINK(1)");
  CHECK(csv("+1") == "'+1");
  CHECK(csv("-1,2") == "\"'-1,2\"");
  CHECK(csv("@SUM(1)") == "'@SUM(1)");
  CHECK(csv("\t=1") == "\\x09=1");
  CHECK(csv("a=1, b") == "\"a=1, b\"");
  CHECK(csv("say \"x\"") == "\"say \"\"x\"\"\"");
  CHECK(csv("") == "");
  CHECK(csv("a\nb\x1b") == "a\\x0ab\\x1b");
  const auto table = parse_csv("a,b,c\n" + csv_row("x, \"y\"", -1.5, Code("z")).text(), "t.csv");
  REQUIRE(table.ok());
  CHECK(table->rows()[0].text("a") == "x, \"y\"");
  CHECK(table->rows()[0].text("b") == "-1.5");
  CHECK(table->rows()[0].text("c") == "z");
}

TEST_CASE("a comment stays on its line") {
  CHECK(Code::comment("x\ntouch PWNED #\x1b\u202e").text() == "x\\x0atouch PWNED #\\x1b\\u202e");
}
