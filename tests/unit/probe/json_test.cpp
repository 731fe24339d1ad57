#include "tools/probe/json.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"

using probe::Json;

TEST_CASE("json keeps the order of members and nests") {
  Json json;
  json["zeta"] = 1;
  json["alpha"]["inner"] = "x";
  json["list"].push(2.5);
  json["list"].push(Json());
  json["zeta"] = 3;  // replaced in place
  CHECK(json.dump() ==
        "{\n  \"zeta\": 3,\n  \"alpha\": {\"inner\": \"x\"},\n  \"list\": [2.5, null]\n}\n");
}

TEST_CASE("json text reads back as the values that were written") {
  Json json;
  const std::string nasty = "quote \" slash \\ newline \n tab \t bell \x07 umlaut \xc3\xa4";
  json["text"] = nasty;
  json["big"] = std::numeric_limits<std::uint64_t>::max();
  json["third"] = 1.0 / 3.0;
  json["negative"] = -42;
  json["yes"] = true;
  json["empty_object"] = Json::object();
  json["empty_array"] = Json::array();
  for (int i = 0; i < 20; ++i) json["long"].push(i);
  const auto back = nlohmann::json::parse(json.dump());
  CHECK(back["text"].get<std::string>() == nasty);
  CHECK(back["big"].get<std::uint64_t>() == std::numeric_limits<std::uint64_t>::max());
  CHECK(back["third"].get<double>() == 1.0 / 3.0);
  CHECK(back["negative"] == -42);
  CHECK(back["yes"] == true);
  CHECK(back["empty_object"].is_object());
  CHECK(back["empty_array"].is_array());
  CHECK(back["long"].size() == 20);
  CHECK(back["long"][19] == 19);
}

TEST_CASE("json has no number for infinity or not-a-number and writes null") {
  CHECK(Json(INFINITY).dump() == "null\n");
  CHECK(Json(std::nan("")).dump() == "null\n");
}

TEST_CASE("json takes a section's finished text as it stands") {
  Json json;
  json["data"] = Json::raw("{\"a\": [1, 2]}");
  CHECK(nlohmann::json::parse(json.dump())["data"]["a"][1] == 2);
  CHECK(json.has("data"));
  CHECK_FALSE(json.has("error"));

  Json outer;
  outer["data"] = Json::raw("{\n  \"a\": 1\n}");  // moved in, one level deeper
  CHECK(outer.dump() == "{\n  \"data\": {\n    \"a\": 1\n  }\n}\n");
}
