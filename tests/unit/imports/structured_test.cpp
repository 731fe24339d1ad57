#include "reports/imports/structured.hpp"

#include "tests/catch.hpp"

using namespace reports::imports;

namespace {

core::Json toml(const char* text) {
  const auto json = parse_toml(text, "job.toml");
  if (!json.ok()) FAIL(core::to_text(json.problems()));
  return *json;
}
core::Json yaml(const char* text) {
  const auto json = parse_yaml(text, "x.yaml");
  if (!json.ok()) FAIL(core::to_text(json.problems()));
  return *json;
}
std::string wrong(const core::Result<core::Json>& json) {
  REQUIRE_FALSE(json.ok());
  return core::to_text(json.problems());
}

}  // namespace

TEST_CASE("TOML gives each value by its keys from the root, with its line") {
  const core::Json json = toml(
      "# a comment\nname = \"x # y\"\n[a.b]  # more\nn = 1_000\nr = 8e-5\nt = 'C:\\x'\n"
      "on = true\n\n[c]\n\"k\".m = [\n  [\"p\", 'q'], # two\n  [],\n]\n");
  CHECK(json.at("name").as_string() == "x # y");
  CHECK(json.at("a.b.n").as_int64() == 1000);
  CHECK(json.at("a.b.r").as_double() == 8e-5);
  CHECK(json.at("a.b.t").as_string() == "C:\\x");
  CHECK(json.at("a.b.on").as_bool());
  CHECK(json.at("c.k.m").items().size() == 2);
  CHECK(json.at("c.k.m").items()[0].items()[1].as_string() == "q");
  CHECK(json.at("c.k.m").line() == 10);
}

TEST_CASE("TOML that is broken or beyond what is read is refused by its line") {
  CHECK(wrong(parse_toml("a = 1\nb 2\n", "job.toml")).find("job.toml:2") != std::string::npos);
  for (const char* text : {"a = ", "a = 1 2", "[a\n", "a = \"x", "a = [1, 2", "a = {b = 1}",
                           "[[a]]\n", "a = 1\na = 2\n", "a = 1979-05-27", "a = \"\"\"x\"\"\"",
                           "a = \"\\q\"", "= 1"})
    CHECK(wrong(parse_toml(text, "job.toml")).find("job.toml:") != std::string::npos);
  CHECK_FALSE(parse_toml("a = " + std::string(100'000, '['), "job.toml").ok());
}

TEST_CASE("YAML gives each value by its keys from the root, with its line") {
  const core::Json json = yaml(
      "---\nkind: FSDP  # of three\nport: null\nbf16: 'no'\nempty: []\nconfig:\n  deep: True\n"
      "  names:\n  - a\n  - 2\n  more: x:y\nlast: 8\nlist:\n- \"q\"\n");
  CHECK(json.at("kind").as_string() == "FSDP");
  CHECK(json.at("port").is_null());
  CHECK(json.at("bf16").as_string() == "no");
  CHECK(json.at("config.deep").as_bool());
  CHECK(json.at("config.names").items()[1].as_int64() == 2);
  CHECK(json.at("config.more").as_string() == "x:y");
  CHECK(json.at("last").as_int64() == 8);
  CHECK(json.at("last").line() == 12);
  CHECK(json.at("list").items()[0].as_string() == "q");
}

TEST_CASE("YAML that is broken or beyond what is read is refused by its line") {
  for (const char* text : {"a: 1\n\tb: 2\n", "a: &x 1\n", "a: 1\na: 2\n", "a: {b: 1}\n", "hello\n",
                           "- x\n", "a: |\n  text\n", "a: \"x\n", "a:\n- b: 1\n"})
    CHECK(wrong(parse_yaml(text, "x.yaml")).find("x.yaml:") != std::string::npos);
}
