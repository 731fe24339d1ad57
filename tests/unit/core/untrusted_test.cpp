#include "core/untrusted.hpp"

#include <fmt/format.h>

#include "core/csv.hpp"
#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "tests/catch.hpp"

using namespace core;

namespace {

// UTF-8 of a code point.
std::string utf8(char32_t c) {
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))};
  return {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
          static_cast<char>(0x80 | (c & 0x3F))};
}

std::vector<char32_t> hidden_points() {
  std::vector<char32_t> all{0x7F};
  for (char32_t c = 0; c < 0x20; ++c) all.push_back(c);
  for (char32_t c = 0x80; c <= 0x9F; ++c) all.push_back(c);
  for (char32_t c = 0x202A; c <= 0x202E; ++c) all.push_back(c);
  for (char32_t c = 0x2066; c <= 0x2069; ++c) all.push_back(c);
  return all;
}

}  // namespace

TEST_CASE("every character that a terminal acts on is hidden, and made visible") {
  for (const char32_t c : hidden_points()) {
    const std::string text = "a" + utf8(c) + "b";
    CAPTURE(static_cast<unsigned>(c));
    CHECK(hidden_in(text) == fmt::format("the character U+{:04X}", static_cast<unsigned>(c)));
    const std::string shown = visible(text);
    CHECK(!hidden_in(shown));
    CHECK(shown.starts_with("a\\"));
    CHECK(shown.ends_with("b"));
    CHECK(!hidden_in(dump(Json(text))));
    CHECK(parse_json(dump(Json(text)), "f")->as_string() == text);
  }
  CHECK(visible("\x1b[31m\u202e\u009b\n") == "\\x1b[31m\\u202e\\x9b\\x0a");
}

TEST_CASE("what can be seen stays as it is") {
  for (const char* text :
       {"", "gpt2-1.5b", "Größe 数 \u00a0 \U0001f600", "a\\nb", "\u2029", "\u202f"}) {
    CHECK(!hidden_in(text));
    CHECK(visible(text) == text);
  }
}

TEST_CASE("bytes that are not UTF-8 are hidden") {
  CHECK(hidden_in("a\xff") == "the byte 0xff, which is not UTF-8");
  CHECK(visible("\x9b[2J\xc3") == "\\x9b[2J\\xc3");
}

TEST_CASE("a string or key of a file with a hidden character is refused with its place") {
  const auto json = parse_json(
      "{\"name\": \"x\\ntouch PWNED #\", \"limits\": {\"a\\u001b\": 1}}", "m.json");
  REQUIRE(json.ok());
  Problems problems;
  JsonReader reader(*json, "m.json", "", problems);
  std::string name = "before";
  CHECK_FALSE(reader.required("name", name));
  CHECK(name == "before");
  CHECK(reader.object("limits").keys().empty());
  REQUIRE(problems.size() == 2);
  CHECK(to_text(problems[0]) ==
        "m.json:1:10 /name: expected a text without control characters, found the character "
        "U+000A in \"x\\ntouch PWNED #\"; remove the character");
  CHECK(problems[1].where.starts_with("m.json:1:"));
  CHECK(to_text(problems[1]).find("/limits/a\\x1b") != std::string::npos);
}

TEST_CASE("a cell with a hidden character is refused with its line; lines and tabs may be") {
  Problems bad;
  const auto table =
      parse_csv("id,note\na,\"two\nlines\tand a tab\"\nb,\x1b[31m\nc,\xc2\x9b\n", "r.csv", &bad);
  REQUIRE(table.ok());
  CHECK(table->size() == 1);
  REQUIRE(bad.size() == 2);
  CHECK(to_text(bad[0]).starts_with("r.csv:4: expected column note without control characters"));
  std::string note;
  Problems problems;
  CHECK_FALSE(table->rows().front().required("note", note, problems));
  CHECK(to_text(problems).find("a text of one line") != std::string::npos);
}

TEST_CASE("a problem is one line, whatever the path that it names") {
  const Problem p{"a\x1b]0;x\a\n.json", "a file", "\u202e", "look"};
  CHECK(to_text(p) == "a\\x1b]0;x\\x07\\x0a.json: expected a file, found \\u202e; look");
}
