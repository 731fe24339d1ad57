// The table of constants: what it may say, and that it knows no run, dataset or model.

#include "reports/fit/constants.hpp"

#include <algorithm>

#include "hw_profiles/load.hpp"
#include "tests/catch.hpp"

namespace {

using namespace reports::fit;

std::string table(const std::string& constant) {
  return R"({"schema": "constants/1", "constants": [)" + constant + "]}";
}
const std::string kGood =
    R"({"field": "gpu.gemm_sustained", "of": ["rtx3090"], "prior": "0.7", "spread": 0.1,)"
    R"( "low": "0.4", "high": "0.9", "why": "clocks"})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a constant names a field, its owners, bounds and what is believed") {
  const auto constants = read_constants(table(kGood), "c.json");
  REQUIRE(constants.ok());
  const Constant& c = constants->front();
  CHECK(c.prior == 0.7);
  CHECK(c.name() == "gpu.gemm_sustained of rtx3090");
  CHECK(c.concerns(*hw_profiles::find_profile("rtx3090")));
  CHECK_FALSE(c.concerns(*hw_profiles::find_profile("rtx4090")));
}

TEST_CASE("a table of constants is refused with the place of what is wrong") {
  const std::vector<std::pair<std::string, std::string>> changes{
      {"gpu.gemm_sustained", "gpu.gemm_sustaned"}, {"rtx3090", "bloom-tuneup"},
      {"\"0.7\"", "\"0.3\""},                      {"\"0.4\"", "\"0\""},
      {"\"0.9\"", "\"much\""},                     {"0.1", "-1"},
      {"\"why\"", "\"row\""}};
  for (const auto& [from, to] : changes) {
    const auto constants = read_constants(table(replaced(kGood, from, to)), "c.json");
    INFO(from << " -> " << to);
    REQUIRE_FALSE(constants.ok());
    CHECK(constants.problems().front().where.starts_with("c.json:1:"));
  }
}

TEST_CASE("a field of a profile is set by one constant alone") {
  CHECK_FALSE(read_constants(table(kGood + "," + kGood), "c.json").ok());
}

TEST_CASE("no shipped constant is keyed to a model or to anything but shipped profiles") {
  std::vector<std::string> owners = hw_profiles::profile_names();
  for (const auto& more : {hw_profiles::node_names(), hw_profiles::framework_names()})
    owners.insert(owners.end(), more.begin(), more.end());
  for (const Constant& c : shipped_constants()) {
    INFO(c.name());
    for (const std::string& owner : c.of) CHECK(std::ranges::count(owners, owner) == 1);
    CHECK(c.low < c.high);
    CHECK(c.why.size() > 10);
  }
}
