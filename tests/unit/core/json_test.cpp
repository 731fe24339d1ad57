#include "core/json.hpp"

#include <cmath>
#include <limits>

#include "tests/catch.hpp"

using namespace core;

namespace {

// "place: expected E, found F; fix" of text that must be refused.
std::string json_refusal(std::string_view text) {
  const Result<Json> result = parse_json(text, "f");
  REQUIRE(!result.ok());
  REQUIRE(result.problems().size() == 1);
  return to_text(result.problems()[0]);
}

std::string place(const Json& value) {
  return std::to_string(value.line()) + ":" + std::to_string(value.column());
}

std::string nested(int depth) {
  const auto n = static_cast<std::size_t>(depth);
  return std::string(n, '[') + std::string(n, ']');
}

}  // namespace

TEST_CASE("every JSON value carries the line and column of its first character") {
  const auto json = parse_json("{\"a\": 1, \"b\": [1,22 ,{\"é\":-3.5e2}],\n  \"d\" :\n\"x\"}", "f");
  REQUIRE(json.ok());
  CHECK(place(*json) == "1:1");
  CHECK(place(json->at("a")) == "1:7");
  CHECK(place(json->at("b")) == "1:15");
  CHECK(place(json->at("b").items()[1]) == "1:18");
  CHECK(place(json->at("b").items()[2]) == "1:22");
  CHECK(place(json->at("b").items()[2].at("é")) == "1:27");  // é is one character of two bytes
  CHECK(place(json->at("d")) == "3:1");
}

TEST_CASE("a byte order mark and blanks before the value are skipped") {
  const auto json = parse_json("\xEF\xBB\xBF\n 5", "f");
  REQUIRE(json.ok());
  CHECK(json->as_int64() == 5);
  CHECK(place(*json) == "2:2");
}

TEST_CASE("integers stay integers up to 64 bits and become doubles beyond") {
  const auto json = parse_json(
      "[9223372036854775807, -9223372036854775808, 18446744073709551615, 18446744073709551616, "
      "1.0]",
      "f");
  REQUIRE(json.ok());
  CHECK(json->items()[0].as_int64() == std::numeric_limits<std::int64_t>::max());
  CHECK(json->items()[1].as_int64() == std::numeric_limits<std::int64_t>::min());
  CHECK(json->items()[2].as_uint64() == std::numeric_limits<std::uint64_t>::max());
  CHECK(json->items()[3].as_double() == 0x1p64);
  CHECK(json->items()[4].is_double());
}

TEST_CASE("a JSON syntax error names its place, what was expected and what was found") {
  CHECK(json_refusal("[1,,2]") == "f:1:4: expected '[', '{', or a literal, found ','");
  CHECK(json_refusal("[1 2]") == "f:1:4: expected ']', found 2");
  CHECK(json_refusal("{\"a\" 1}") == "f:1:6: expected ':', found 1");
  CHECK(json_refusal("{\"a\":1,\n}") == "f:2:1: expected string literal, found '}'");
  CHECK(json_refusal("") == "f:1:1: expected '[', '{', or a literal, found the end of the text");
  CHECK(json_refusal("{\"a\":1\n") == "f:2:1: expected '}', found the end of the text");
  CHECK(json_refusal("[true\n] x") == "f:2:3: expected end of input, found x; invalid literal");
  CHECK(json_refusal("[1e999]") == "f:1:2: expected a number that fits a double, found 1e999");
}

TEST_CASE("a raw newline or byte that is no UTF-8 inside a JSON string is refused at its place") {
  CHECK(json_refusal("[\"a\nb\"]").starts_with("f:1:4: expected a valid value, found \\\"a\\n; "));
  CHECK(json_refusal("[\"\xFF\"]").starts_with("f:1:3: expected a valid value"));
}

TEST_CASE("a key given twice in one object is refused with both lines") {
  CHECK(json_refusal("{\"a\": 1,\n \"b\": 2,\n \"a\": 3}") ==
        "f:3:7: expected key \"a\" once per object, found it again (first on line 1); "
        "remove one of the two");
  CHECK(parse_json("[{\"a\":1},{\"a\":{\"a\":2}}]", "f").ok());
}

TEST_CASE("JSON nests 64 levels and no more") {
  CHECK(parse_json(nested(kMaxJsonDepth), "f").ok());
  CHECK(json_refusal(nested(kMaxJsonDepth + 1)) ==
        "f:1:65: expected at most 64 levels of nesting, found more");
}

TEST_CASE("JSON text beyond 64 MiB is refused before it is read") {
  const std::string text(kMaxJsonBytes + 1, ' ');
  CHECK(json_refusal(text) == "f: expected at most 64 MiB of JSON, found 67108865 bytes");
}

TEST_CASE("JSON of more values than memory is for is refused at the first of them") {
  const auto zeros = [](std::size_t count) {
    std::string text = "[0";
    for (std::size_t i = 1; i < count; ++i) text += ",0";
    return text + "]";
  };
  const std::size_t most = std::size_t{2} << 20;  // with the array itself
  CHECK(parse_json(zeros(most - 1), "f").ok());
  CHECK(json_refusal(zeros(most)) ==
        "f:1:4194304: expected at most 2097152 values, found more; divide the file");
}

TEST_CASE("JSON of small values is refused before it takes more than 8 times its text") {
  const auto many = [](std::string_view value, std::size_t count) {
    std::string text = "[" + std::string(value);
    for (std::size_t i = 1; i < count; ++i) text += "," + std::string(value);
    return text + "]";
  };
  // 16 bytes and a block of 48 for the string: 64 MiB where 56 are allowed.
  CHECK(json_refusal(many("\"\"", std::size_t{1} << 20)) ==
        "f:1:2621438: expected values that take at most 56 MiB, found more: the text holds too "
        "many small values; divide the file");
  CHECK(parse_json(many("\"\"", std::size_t{700'000}), "f").ok());
  CHECK(json_refusal(many("[[]]", std::size_t{1} << 20)).find("at most 56 MiB") !=
        std::string::npos);
  // Commas that open no value reserve no memory for them.
  CHECK(!parse_json("[" + std::string(kMaxJsonBytes - 1, ','), "f").ok());
}

TEST_CASE("JSON values are copied whole, moved out of themselves, and compared by content") {
  const char* text = "{\"a\": [1, [true, \"x\"], {}, [], 1.5, 18446744073709551615]}";
  Json json = parse_json(text, "f").value();
  Json copy = json;
  CHECK(copy == json);
  CHECK(copy.at("a").line() == 1);
  CHECK(copy.at("a").column() == 7);
  copy.set("a", 2);
  CHECK(copy != json);
  json = Json(json.at("a").items()[1]);  // a part of itself
  CHECK(dump(json, 0) == "[true,\"x\"]");
  json = json.items()[1];
  CHECK(json.as_string() == "x");
  Json& self = json;
  json = self;
  CHECK(json.as_string() == "x");
  CHECK(Json(1) != Json(1.0));
  CHECK(Json::array() != Json::object());
}

TEST_CASE("JSON made in memory keeps the order of its keys and replaces in place") {
  Json json = Json::object({{"z", 1}, {"a", true}});
  json.set("m", std::optional<double>()).set("z", "last").set("list", Json::array({1, 2.5}));
  CHECK(dump(json, 0) == "{\"z\":\"last\",\"a\":true,\"m\":null,\"list\":[1,2.5]}");
  CHECK(json.find("none") == nullptr);
  CHECK(json.at("a").line() == 0);
}

TEST_CASE("dumped JSON indents objects and keeps arrays of scalars on one line") {
  const Json json = Json::object({{"a", Json::array_of(std::vector<int>{1, 2})},
                                  {"b", Json::array({Json::object({{"c", nullptr}})})},
                                  {"e", Json::object()},
                                  {"f", Json::array()}});
  CHECK(dump(json, 2) ==
        "{\n  \"a\": [1, 2],\n  \"b\": [\n    {\n      \"c\": null\n    }\n  ],\n"
        "  \"e\": {},\n  \"f\": []\n}");
}

TEST_CASE("dumped doubles take the fewest digits that read back equal and stay doubles") {
  const Json json = Json::array({0.1, 3.0, 1e300, -0.0, 5e-324, 1.0 / 3});
  CHECK(dump(json, 0) == "[0.1,3.0,1e+300,-0.0,5e-324,0.3333333333333333]");
  const auto again = parse_json(dump(json, 0), "f");
  REQUIRE(again.ok());
  CHECK(*again == json);
  CHECK(std::signbit(again->items()[3].as_double()));
}

TEST_CASE("doubles that are not finite are dumped as null") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(dump(Json::array({infinity, -infinity, std::nan("")}), 0) == "[null,null,null]");
}

TEST_CASE("dumped strings escape what JSON must and replace what is no UTF-8") {
  CHECK(dump(Json("a\"\\\n\t\x01/é𝄞"), 0) == "\"a\\\"\\\\\\n\\t\\u0001/é𝄞\"");
  CHECK(dump(Json("x\xFFy\xC3"), 0) == "\"x\xEF\xBF\xBDy\xEF\xBF\xBD\"");
  CHECK(dump(Json("\xC0\xAF"), 0) == "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");      // overlong
  CHECK(parse_json(dump(Json("\xED\xA0\x80\xF4\x90\x80\x80"), 0), "f").ok());  // surrogate, beyond
}

TEST_CASE("what is dumped reads back equal at any indent") {
  const auto json = parse_json(
      "{\"a\":[[],{},[[1]],\"\\u00e9\\n\"],\"b\":{\"c\":{\"d\":[null,false]}},\"e\":-1.5e-7}", "f");
  REQUIRE(json.ok());
  for (int indent : {0, 1, 2, 7}) {
    const auto again = parse_json(dump(*json, indent), "g");
    REQUIRE(again.ok());
    CHECK(*again == *json);
  }
}
