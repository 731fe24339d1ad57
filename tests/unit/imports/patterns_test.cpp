#include "reports/imports/patterns.hpp"

#include "tests/catch.hpp"

using namespace reports::imports;

TEST_CASE("a pattern of layers says of each layer whether it has it") {
  const std::vector<bool> every_fourth{false, false, false, true, false, false, false, true};
  CHECK(layer_pattern("([0]*3+[1]*1)*2", 8, EveryNth::first) == every_fourth);
  CHECK(layer_pattern("[0,0,0,1]*2", 8, EveryNth::first) == every_fourth);
  CHECK(layer_pattern("4", 8, EveryNth::last) == every_fourth);
  const std::vector<bool> first_of_two{true, false, true, false};
  CHECK(layer_pattern("2", 4, EveryNth::first) == first_of_two);
  CHECK(layer_pattern("1", 2, EveryNth::first) == std::vector<bool>{true, true});
}

TEST_CASE("a pattern of another length, or of another language, is none") {
  for (const char* text : {"[0]*3", "[2]*4", "([0]*4", "[0]*4)", "__import__('os')", "0", "-1", "",
                           "[0]*99999999999", "[[0]*65536]*65536"})
    CHECK_FALSE(layer_pattern(text, 4, EveryNth::first).has_value());
  CHECK_FALSE(layer_pattern(std::string(100'000, '['), 4, EveryNth::first).has_value());
}

TEST_CASE("a layout says the layers of each chunk") {
  const auto layers = [](const char* text) { return pipeline_layout(text).value().layers; };
  CHECK(layers("Et*4|t*5|t*3L") == std::vector<std::int64_t>{4, 5, 3});
  CHECK(layers("E|(t|)*3,L") == std::vector<std::int64_t>{0, 1, 1, 1, 0});
  CHECK(layers("Ettt|(tt|)*2tL") == std::vector<std::int64_t>{3, 2, 2, 1});
  CHECK_FALSE(pipeline_layout("Et|tmL").value().others);
  CHECK(pipeline_layout("Et|tm|L").value().others);
  CHECK_FALSE(pipeline_layout("Et*4|x").has_value());
}
