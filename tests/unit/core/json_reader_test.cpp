#include "core/json_reader.hpp"

#include <array>

#include "tests/catch.hpp"

using namespace core;

namespace {

enum class Fruit { apple, pear };
constexpr std::array kFruits{Fruit::apple, Fruit::pear};
std::string_view name(Fruit fruit) { return fruit == Fruit::apple ? "apple" : "pear"; }

Json parse(std::string_view text) {
  auto json = parse_json(text, "f");
  REQUIRE(json.ok());
  return std::move(json).value();
}

}  // namespace

TEST_CASE("a reader fills fields of every type") {
  const Json json = parse(
      R"({"layers": 48, "big": 1e6, "rate": 2, "name": "x", "on": true, "memory": 24, "time": 0.5,
          "widths": [1, 2, 3], "maybe": 7, "fruit": "pear", "raw": {"k": 1}})");
  Problems problems;
  JsonReader r(json, "f", "", problems);
  std::int64_t layers = 0, big = 0;
  double rate = 0;
  std::string text;
  bool on = false;
  Bytes memory;
  Seconds time;
  std::vector<int> widths;
  std::optional<std::int64_t> maybe, absent;
  Fruit fruit = Fruit::apple;
  Json raw;
  CHECK(r.required("layers", layers, IntRange{1, 100}));
  CHECK(r.required("big", big));
  CHECK(r.required("rate", rate, positive()));
  CHECK(r.required("name", text));
  CHECK(r.required("on", on));
  CHECK(r.required("memory", memory));
  CHECK(r.required("time", time));
  CHECK(r.required("widths", widths, at_least(1)));
  CHECK(r.optional("maybe", maybe));
  CHECK(!r.optional("absent", absent));
  CHECK(r.named("fruit", kFruits, fruit));
  CHECK(r.required("raw", raw));
  r.allow_only_known();
  CHECK(to_text(problems) == "");
  CHECK(layers == 48);
  CHECK(big == 1'000'000);
  CHECK(rate == 2.0);
  CHECK(text == "x");
  CHECK(on);
  CHECK(memory == Bytes(24));
  CHECK(time == Seconds(0.5));
  CHECK(widths == std::vector<int>{1, 2, 3});
  CHECK(maybe == 7);
  CHECK(!absent);
  CHECK(fruit == Fruit::pear);
  CHECK(raw.at("k").as_int64() == 1);
}

TEST_CASE("a reader collects every problem with its place, pointer and nearest name") {
  const Json json = parse(R"({"layers": 4.5,
 "model": {"heads": "many", "rat": 1, "a/b~": 0},
 "stages": [1, 0, "x"],
 "recipe": "mixde",
 "laeyrs": 1,
 "big": 12345678901})");
  Problems problems;
  JsonReader r(json, "plan.json", "", problems);
  std::int64_t layers = 1;
  int small = 1;
  std::vector<std::int64_t> stages{9};
  std::string recipe = "old";
  bool flag = true;
  r.required("layers", layers, at_least(1));
  JsonReader model = r.object("model");
  model.required("heads", layers, IntRange{1, 8});
  double rate = 1;
  model.required("rate", rate, positive());
  model.required("a/b~", rate, positive());
  model.allow_only_known();
  r.required("stages", stages, at_least(1));
  r.one_of("recipe", std::array<std::string_view, 2>{"mixed", "lean"}, recipe);
  r.required("big", small);
  r.required("flag", flag);
  r.allow_only_known();
  CHECK(to_text(problems) ==
        "plan.json:1:12 /layers: expected an integer >= 1, found 4.5\n"
        "plan.json:2:21 /model/heads: expected an integer from 1 to 8, found \"many\"\n"
        "plan.json:2:11 /model: expected a key \"rate\", found none\n"
        "plan.json:2:47 /model/a~1b~0: expected a number above 0, found 0\n"
        "plan.json:2:36 /model/rat: expected a known key, found \"rat\"; did you mean \"rate\"?\n"
        "plan.json:3:16 /stages/1: expected an integer >= 1, found 0\n"
        "plan.json:3:19 /stages/2: expected an integer >= 1, found \"x\"\n"
        "plan.json:4:12 /recipe: expected one of mixed, lean, found \"mixde\"; "
        "did you mean \"mixed\"?\n"
        "plan.json:6:9 /big: expected an integer from -2147483648 to 2147483647, "
        "found 12345678901\n"
        "plan.json:1:1: expected a key \"flag\", found none\n"
        "plan.json:5:12 /laeyrs: expected a known key, found \"laeyrs\"; "
        "did you mean \"layers\"?\n");
  CHECK(layers == 1);  // what cannot be read stays as it was
  CHECK(stages == std::vector<std::int64_t>{9});
  CHECK(recipe == "old");
}

TEST_CASE("a missing or wrong object is one problem, not one per field") {
  const Json json = parse(R"({"model": 3})");
  Problems problems;
  JsonReader r(json, "f", "", problems);
  std::int64_t x = 0;
  JsonReader wrong = r.object("model");
  wrong.required("x", x);
  JsonReader missing = r.object("job");
  missing.required("x", x);
  missing.allow_only_known();
  CHECK(!r.optional_object("cluster"));
  CHECK(to_text(problems) ==
        "f:1:11 /model: expected an object, found 3\n"
        "f:1:1: expected a key \"job\", found none\n");
}

TEST_CASE("null is absent for an optional field and a problem for a required one") {
  const Json json = parse(R"({"a": null})");
  Problems problems;
  JsonReader r(json, "f", "", problems);
  std::int64_t a = 5;
  CHECK(!r.optional("a", a));
  CHECK(!r.has("a"));
  CHECK(problems.empty());
  CHECK(!r.required("a", a));
  CHECK(to_text(problems) == "f:1:7 /a: expected an integer, found null\n");
}

TEST_CASE("arrays of objects are read by one reader each") {
  const Json json = parse(R"({"tiers": [{"n": 1}, {"n": "x"}, 3]})");
  Problems problems;
  JsonReader r(json, "f", "", problems);
  std::vector<std::int64_t> seen;
  for (JsonReader& tier : r.objects("tiers")) {
    std::int64_t n = 0;
    if (tier.required("n", n)) seen.push_back(n);
  }
  CHECK(r.optional_objects("none").empty());
  CHECK(seen == std::vector<std::int64_t>{1});
  CHECK(to_text(problems) ==
        "f:1:34 /tiers/2: expected an object, found 3\n"
        "f:1:28 /tiers/1/n: expected an integer, found \"x\"\n");
}

TEST_CASE("an object of many unknown keys names the first twenty and counts the rest") {
  Json json = Json::object();
  for (int i = 0; i < 25; ++i) json.set("unknown_" + std::to_string(i), i);
  Problems problems;
  JsonReader(json, "f", "/at", problems).allow_only_known();
  REQUIRE(problems.size() == 21);
  CHECK(to_text(problems.back()) == "f /at: expected known keys, found 5 more unknown ones");
}

TEST_CASE("long strings and containers are described in a few words") {
  CHECK(describe(parse("[1,2]")) == "an array of 2");
  CHECK(describe(Json::array()) == "an empty array");
  CHECK(describe(Json(std::string(60, 'x'))) == "\"" + std::string(40, 'x') + "...\"");
}

TEST_CASE("negative quantities and doubles beyond 2^53 that pose as integers are refused") {
  const Json json = parse(R"({"b": -1, "i": 1e17, "u": 18446744073709551615})");
  Problems problems;
  JsonReader r(json, "f", "", problems);
  Bytes bytes(3);
  std::int64_t i = 3;
  CHECK(!r.required("b", bytes));
  CHECK(!r.required("i", i));
  CHECK(!r.required("u", i));
  CHECK(bytes == Bytes(3));
  CHECK(problems.size() == 3);
}
