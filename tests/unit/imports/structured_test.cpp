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
  CHECK(json.at("a").at("b").at("n").as_int64() == 1000);
  CHECK(json.at("a").at("b").at("r").as_double() == 8e-5);
  CHECK(json.at("a").at("b").at("t").as_string() == "C:\\x");
  CHECK(json.at("a").at("b").at("on").as_bool());
  CHECK(json.at("c").at("k").at("m").items().size() == 2);
  CHECK(json.at("c").at("k").at("m").items()[0].items()[1].as_string() == "q");
  CHECK(json.at("c").at("k").at("m").line() == 10);
}

TEST_CASE("TOML that is broken is refused by its line") {
  CHECK(wrong(parse_toml("a = 1\nb 2\n", "job.toml")).find("job.toml:2") != std::string::npos);
  for (const char* text : {"a = ", "a = 1 2", "[a\n", "a = \"x", "a = [1, 2", "a = 1\na = 2\n",
                           "a = \"\\q\"", "= 1"})
    CHECK(wrong(parse_toml(text, "job.toml")).find("job.toml:") != std::string::npos);
  CHECK_FALSE(parse_toml("a = " + std::string(100'000, '['), "job.toml").ok());
}

TEST_CASE("TOML of inline tables, tables in a row, dates and long texts is read") {
  const core::Json json = toml("a = {b = 1}\nd = 1979-05-27\nt = \"\"\"x\ny\"\"\"\n[[r]]\nk = 2\n");
  CHECK(json.at("a").at("b").as_int64() == 1);
  CHECK(json.at("d").as_string() == "1979-05-27");
  CHECK(json.at("t").as_string() == "x\ny");
  CHECK(json.at("r").items()[0].at("k").as_int64() == 2);
}

TEST_CASE("YAML of flow mappings, anchors and blocks is read, and yes is a flag as to PyYAML") {
  const core::Json json = yaml("a: {b: 1}\nc: &x [yes, 'yes']\nd: *x\ne: |\n  text\nf: 1e-3\n");
  CHECK(json.at("a").at("b").as_int64() == 1);
  CHECK(json.at("d").items()[0].as_bool());
  CHECK(json.at("d").items()[1].as_string() == "yes");
  CHECK(json.at("e").as_string() == "text\n");
  CHECK(json.at("f").as_double() == 1e-3);
}

TEST_CASE("YAML gives each value by its keys from the root, with its line") {
  const core::Json json = yaml(
      "---\nkind: FSDP  # of three\nport: null\nbf16: 'no'\nempty: []\nconfig:\n  deep: True\n"
      "  names:\n  - a\n  - 2\n  more: x:y\nlast: 8\nlist:\n- \"q\"\n");
  CHECK(json.at("kind").as_string() == "FSDP");
  CHECK(json.at("port").is_null());
  CHECK(json.at("bf16").as_string() == "no");
  CHECK(json.at("config").at("deep").as_bool());
  CHECK(json.at("config").at("names").items()[1].as_int64() == 2);
  CHECK(json.at("config").at("more").as_string() == "x:y");
  CHECK(json.at("last").as_int64() == 8);
  CHECK(json.at("last").line() == 12);
  CHECK(json.at("list").items()[0].as_string() == "q");
}

TEST_CASE("YAML that is broken, or no mapping of texts, is refused by its line") {
  for (const char* text : {"a: 1\n\tb: 2\n", "a: 1\na: 2\n", "hello\n", "- x\n",
                           "? [a]\n: 1\n", "a: &x\n  b: *x\n", "a: *x\n"}) {
    INFO(text);
    CHECK(wrong(parse_yaml(text, "x.yaml")).find("x.yaml:") != std::string::npos);
  }
}

TEST_CASE("files that stand for far more than they hold are refused in little time and memory") {
  CHECK(wrong(parse_toml("[training]\na" + std::string(200'000, '.') + " = 1", "job.toml"))
            .find("dots") != std::string::npos);
  std::string tables = "a";
  for (int i = 0; i < 100'000; ++i) tables += ".a";
  CHECK(wrong(parse_toml(tables + " = 1\n", "job.toml")).find("dots") != std::string::npos);
  CHECK_FALSE(parse_toml("a = " + std::string(100'000, '['), "job.toml").ok());
  std::string anchors = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c <= 'j'; ++c) {
    anchors += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 9; ++i) anchors += std::string(i > 0 ? "," : "") + '*' + char(c - 1);
    anchors += "]\n";
  }
  CHECK(wrong(parse_yaml(anchors, "x.yaml")).find("20,000 values") != std::string::npos);
  CHECK_FALSE(parse_yaml("a: " + std::string(100'000, '['), "x.yaml").ok());
  std::string keys;
  for (int i = 0; i < 150'000; ++i) keys += std::to_string(i) + ":\n";
  CHECK(wrong(parse_yaml(keys, "x.yaml")).find("20,000 values") != std::string::npos);
}
