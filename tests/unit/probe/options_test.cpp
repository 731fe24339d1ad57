#include "tools/probe/options.hpp"

#include "tests/catch.hpp"

using probe::OptionProblem;
using probe::Options;

namespace {

probe::ParsedOptions parse(std::vector<std::string> words) { return probe::parse_options(words); }

std::vector<OptionProblem> problems(std::vector<std::string> words) {
  const auto parsed = parse(std::move(words));
  const auto* found = std::get_if<std::vector<OptionProblem>>(&parsed);
  return found != nullptr ? *found : std::vector<OptionProblem>{};
}

}  // namespace

TEST_CASE("no options mean every section of device 0 into probe.json") {
  const auto options = std::get<Options>(parse({}));
  CHECK(options.sections.size() == probe::kSections.size());
  CHECK(options.out == "probe.json");
  CHECK(options.device == 0);
  CHECK(options.nccl_ranks == 2);
  CHECK_FALSE(options.quick);
}

TEST_CASE("values attach with a blank or an equals sign") {
  const auto options =
      std::get<Options>(parse({"--out=a=b.json", "--device", "3", "--quick", "--nccl-ranks=4"}));
  CHECK(options.out == "a=b.json");
  CHECK(options.device == 3);
  CHECK(options.quick);
  CHECK(options.nccl_ranks == 4);
}

TEST_CASE("sections run in their own order, each once") {
  const auto options = std::get<Options>(parse({"--sections", "nccl,gemm,environment,gemm"}));
  CHECK(options.sections == std::vector<std::string>{"environment", "gemm", "nccl"});
}

TEST_CASE("every bad option is reported, with what was expected and found") {
  const auto found = problems({"--device", "-1", "--nccl-ranks", "17", "--sections", "gemm,gem,",
                               "stray", "--quick=yes", "--out"});
  REQUIRE(found.size() == 7);
  CHECK(probe::to_text(found[0]) ==
        "planner-probe: --device: expected an integer from 0 to 63, found \"-1\"; "
        "write --device 0");
  CHECK(found[1].found == "\"17\"");
  CHECK(found[2].found == "\"gem\"");
  CHECK(found[3].found == "\"\"");
  CHECK(found[4].found == "\"stray\"");
  CHECK(found[5].where == "--quick");
  CHECK(found[6].expected == "a value");
}

TEST_CASE("numbers with trailing text or beyond the range of int are refused") {
  CHECK(problems({"--device", "1x"}).size() == 1);
  CHECK(problems({"--device", ""}).size() == 1);
  CHECK(problems({"--device", "99999999999999999999"}).size() == 1);
}

TEST_CASE("the help names every section and option") {
  for (const auto section : probe::kSections) {
    CHECK(probe::help_text().find(section) != std::string_view::npos);
  }
  for (const char* option : {"--out", "--sections", "--quick", "--device", "--nccl-ranks"}) {
    CHECK(probe::help_text().find(option) != std::string_view::npos);
  }
}
