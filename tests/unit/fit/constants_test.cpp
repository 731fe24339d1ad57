// The table of constants: what it may say, and that it knows no run, dataset or model.

#include "reports/fit/constants.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/numbers.hpp"
#include "reports/fit/write_back.hpp"
#include "tests/catch.hpp"
#include "tests/replaced.hpp"

namespace {

using namespace reports::fit;

std::string table(const std::string& constant) {
  return R"({"schema": "constants/1", "constants": [)" + constant + "]}";
}
const std::string kGood =
    R"({"field": "gpu.gemm_sustained", "of": ["rtx3090"], "prior": "0.7", "spread": 0.1,)"
    R"( "low": "0.4", "high": "0.9", "why": "clocks"})";

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

TEST_CASE("others follow a constant by a factor, known by their ids and set once") {
  const auto with = [](const std::string& scaled) {
    return read_constants(
        table(replaced(kGood, "\"why\"", "\"scaled\": [" + scaled + "], \"why\"")), "c.json");
  };
  const auto good = with(R"({"of": "rtx3080", "by": 0.9, "why": "fewer watts"})");
  REQUIRE(good.ok());
  REQUIRE(good->front().scaled.size() == 1);
  CHECK(good->front().scaled.front().by == 0.9);
  CHECK_FALSE(good->front().concerns(*hw_profiles::find_profile("rtx3080")));  // no run of it
  for (const char* bad : {R"({"of": "rtx3079", "by": 0.9, "why": "w"})",
                          R"({"of": "rtx3090", "by": 0.9, "why": "itself"})",
                          R"({"of": "rtx3080", "by": 0, "why": "w"})", R"({"of": "rtx3080"})"})
    CHECK_FALSE(with(bad).ok());
}

TEST_CASE("a fit is written into the profiles it concerns, whole") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / fmt::format("planner-fit-{}", ::getpid());
  fs::create_directories(root / "hw_profiles/data");
  for (const char* gpu : {"rtx3090", "rtx3080", "rtx6000-ada"})
    REQUIRE(core::write_atomically(root / fmt::format("hw_profiles/data/{}.json", gpu),
                                   R"({"id": "x", "gpu": {"tdp": ["350 W", "sheet"]}})")
                .ok());
  Fitted fitted;
  fitted.constants = read_constants(table(replaced(kGood, "\"why\"",
      R"("scaled": [{"of": "rtx3080", "by": 0.5, "why": "half"}], "why")")), "c.json").value();
  fitted.constants.push_back(
      {"gpu.gemm_sustained", {"rtx6000-ada"}, 0.4, 0.2, 0.6, 0.25, "clocks"});
  fitted.values = {0.62, 0.4};
  fitted.sites = {2, 1};
  fitted.left_out.resize(1);
  fitted.site.parts = {0.02, 0.1, 0.1, 0.1};
  REQUIRE(write_back(fitted, std::nullopt, root).ok());
  const auto number = [&](const char* gpu, const char* key) {
    const auto text = core::read_file(root / fmt::format("hw_profiles/data/{}.json", gpu), 1 << 20);
    REQUIRE(text.ok());
    const auto json = core::parse_json(*text, gpu);
    REQUIRE(json.ok());
    REQUIRE(json->find("gpu")->find("tdp") != nullptr);  // what was there stays
    return core::dump(*json->find("gpu")->find(key));
  };
  CHECK(number("rtx3090", "gemm_sustained").find("\"0.62\"") != std::string::npos);
  CHECK(number("rtx3080", "gemm_sustained").find("\"0.31\"") != std::string::npos);
  CHECK(number("rtx3080", "gemm_sustained").find("unverified for this card") != std::string::npos);
  // 1 / (1 / 0.01 + 2 / 0.02) = 0.005, whose root is 0.0707.
  CHECK(number("rtx3090", "sustained_spread").find("\"0.0707\"") != std::string::npos);
  CHECK(number("rtx3080", "sustained_spread").find("\"0.25\"") != std::string::npos);
  fitted.constants.front().scaled.front().of = "rtx4090";   // no file of it here
  CHECK_FALSE(write_back(fitted, std::nullopt, root).ok());
  fs::remove_all(root);
}

TEST_CASE("shipped cards that follow a constant hold so many times what its own cards hold") {
  const auto number = [](const std::string& gpu, const std::string& field) {
    return hw_profiles::number_of(*hw_profiles::find_profile(gpu), field).value();
  };
  int followers = 0;
  for (const Constant& c : shipped_constants())
    for (const Scaled& s : c.scaled) {
      INFO(c.name() << ", followed by " << s.of);
      const double led = number(c.of.front(), c.field);
      CHECK(number(s.of, c.field) == Approx(led * s.by).epsilon(0.01));  // of rounded numbers
      const std::string source = fmt::format("derived, unverified for this card: {:.3g} times that "
                                             "of {}: {}", s.by, c.of.front(), s.why);
      const hw_profiles::Profile follower = *hw_profiles::find_profile(s.of);
      CHECK(follower.lookup(c.field)->source == source);
      if (c.field == kRateOfGpu) CHECK(number(s.of, "gpu.sustained_spread") == 0.25);
      ++followers;
    }
  CHECK(followers > 0);
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
