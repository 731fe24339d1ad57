// Links of a site from its timed collectives: what nccl-tests print, and the fields that follow.

#include "reports/fit/site_links.hpp"

#include <fmt/format.h>

#include "hw_profiles/load.hpp"
#include "reports/validate/nccl_tests.hpp"
#include "tests/catch.hpp"

using namespace reports;

namespace {

hw_profiles::Profile h100() { return *hw_profiles::find_profile("h100-sxm-80g"); }

// What a site with such links would time: sizes of 1 MiB to 1 GiB.
std::vector<validation::Timing> timed(const hw_profiles::Profile& site, std::string_view pattern,
                                      int gpus, int nodes) {
  std::vector<validation::Timing> all;
  for (std::int64_t bytes = 1 << 20; bytes <= 1 << 30; bytes *= 4) {
    const auto of = *validation::pattern_called(pattern);
    validation::Timing t{of, gpus, nodes, core::Bytes(bytes), {}};
    t.time = validation::predicted_timing(t, cost::make_fabric(site), false).time;
    all.push_back(t);
  }
  return all;
}

std::vector<validation::Timing> joined(std::vector<validation::Timing> a,
                                       const std::vector<validation::Timing>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr const char* kRanks =
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 1048576 step: 2(factor)\n#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid  24365 on   node-a device  0 [0x10] NVIDIA A100-SXM4-80GB\n"
    "#  Rank  1 Group  0 Pid  24365 on   node-a device  1 [0x10] NVIDIA A100-SXM4-80GB\n"
    "#  Rank  2 Group  0 Pid    977 on   node-b device  0 [0000:1b:00] NVIDIA A100-SXM4-80GB\n"
    "#  Rank  3 Group  0 Pid    977 on   node-b device  1 [0000:1c:00] NVIDIA A100-SXM4-80GB\n";
constexpr const char* kRow =
    "     1048576        262144     float     sum      -1    101.5   10.33   15.50      0    99.1"
    "   10.58   15.87      0\n";

core::Problem refused(const std::string& text, std::string_view file = "all_reduce.txt") {
  const auto read = validation::read_timed_collectives(text, file);
  REQUIRE_FALSE(read.ok());
  return read.problems().front();
}

}  // namespace

TEST_CASE("the output of nccl-tests says what was timed, on which ranks, and how long it took") {
  const auto read = validation::read_timed_collectives(
      std::string(kRanks) + "node-a:24365:24365 [0] NCCL INFO Bootstrap\n" + kRow +
          "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 15.6\n",
      "logs/all_reduce_2nodes.txt");
  REQUIRE(read.ok());
  REQUIRE(read->timings.size() == 1);
  const validation::Timing& t = read->timings.front();
  CHECK(t.pattern.name == "all_reduce");
  CHECK(t.gpus == 4);
  CHECK(t.nodes == 2);
  CHECK(t.bytes == core::mib(1));
  CHECK(t.time.value() == Approx(101.5e-6));   // out of place
  CHECK(read->gpu == "NVIDIA A100-SXM4-80GB");
}

TEST_CASE("newer outputs name their collective themselves") {
  const auto read = validation::read_timed_collectives(
      std::string("# Collective test starting: reduce_scatter_perf\n") + kRanks + kRow, "log.txt");
  REQUIRE(read.ok());
  CHECK(read->timings.front().pattern.name == "reduce_scatter");
}

TEST_CASE("an output of nccl-tests that lacks something says what") {
  CHECK(refused(std::string(kRanks) + kRow, "log.txt").fix.find("all_reduce") != std::string::npos);
  CHECK(refused(kRow).found == "0 ranks on 0 hosts");
  CHECK(refused(std::string(kRanks) + "# Rank 4 on node-b device 2 [0x1] A100\n" + kRow).found ==
        "5 ranks on 2 hosts");
  CHECK(refused(kRanks).found == "none");
  std::string wrong = kRow;
  wrong.replace(wrong.find("      0    99"), 7, "      7");
  CHECK(refused(std::string(kRanks) + wrong).found == "7 of them");
  CHECK(refused(std::string(kRanks) + "8 2 float\n").where == "all_reduce.txt:8");
}

TEST_CASE("timings over nodes give the hop and the share of the wire that made them") {
  hw_profiles::Profile site = h100();
  site.node.internode_latency = core::Seconds(40e-6);
  site.node.internode_efficiency = 0.6;
  const auto links = fit::links_of(
      joined(timed(site, "all_reduce", 32, 4), timed(site, "all_gather", 32, 4)), h100(), "a test");
  REQUIRE(links.ok());
  CHECK(links->profile.node.internode_latency.value() == Approx(40e-6).epsilon(0.05));
  CHECK(*links->profile.node.internode_efficiency == Approx(0.6).epsilon(0.02));
  CHECK(links->profile.node.link_bandwidth == h100().node.link_bandwidth);
  for (const fit::LinkGroup& g : links->groups) {
    CHECK(g.after < 0.02);
    CHECK(g.before > 0.1);
  }
  for (const hw_profiles::MeasuredField& f : links->fields) CHECK(f.gpu.empty());
}

TEST_CASE("timings inside a node give its links, on that GPU alone") {
  hw_profiles::Profile site = h100();
  site.node.link_bandwidth = site.node.link_bandwidth * 0.7;
  const auto links = fit::links_of(timed(site, "all_gather", 8, 1), h100(), "a test");
  REQUIRE(links.ok());
  REQUIRE_FALSE(links->fields.empty());
  CHECK(links->fields.front().field == "node.link_bandwidth");
  CHECK(links->fields.front().gpu == "h100-sxm-80g");
  CHECK(links->profile.node.link_bandwidth / site.node.link_bandwidth == Approx(1).epsilon(0.02));

  hw_profiles::SiteFile file;
  file.measured = links->fields;
  const auto read = hw_profiles::read_site(to_json_text(file), "site.json");
  REQUIRE(read.ok());
  CHECK(read->measured == links->fields);
  hw_profiles::Profile here = h100(), other = *hw_profiles::find_profile("a100-sxm-80g");
  const hw_profiles::Profile shipped = other;
  REQUIRE(hw_profiles::use_site(here, *read, "--site site.json").ok());
  REQUIRE(hw_profiles::use_site(other, *read, "--site site.json").ok());
  CHECK(here.node.link_bandwidth / site.node.link_bandwidth == Approx(1).epsilon(0.02));
  CHECK(here.lookup("node.link_bandwidth")->source == "--site site.json: a test");
  CHECK(here.site.measured == static_cast<int>(links->fields.size()));
  CHECK(other == shipped);
}

TEST_CASE("one size over nodes is read as a job's own measurement, and needs both kinds") {
  const hw_profiles::Profile profile = h100();
  hw_profiles::Profile site = profile;
  site.node.internode_latency = core::Seconds(30e-6);
  site.node.tree_wait = core::Seconds(5e-6);
  site.node.nccl_low_latency = false;
  const auto one = [&](std::string_view pattern) {
    validation::Timing t{*validation::pattern_called(pattern), 64, 8, core::mib(256), {}};
    t.time = validation::predicted_timing(t, cost::make_fabric(site), false).time;
    return t;
  };
  const std::vector<validation::Timing> both{one("all_reduce"), one("all_gather")};
  const auto links = fit::links_of(both, profile, "a test");
  REQUIRE(links.ok());
  CHECK(links->profile.node.internode_latency.value() == Approx(30e-6).epsilon(0.05));
  for (const fit::LinkGroup& g : links->groups) CHECK(g.after < 0.05);
  const auto alone = fit::links_of(std::span(both).first(1), profile, "a test");
  REQUIRE_FALSE(alone.ok());
  CHECK(alone.problems().front().where == "--busbw");
}

TEST_CASE("collectives that no machine of this GPU has are refused") {
  const auto links = fit::links_of(timed(h100(), "all_gather", 32, 2), h100(), "a test");
  REQUIRE_FALSE(links.ok());
  CHECK(links.problems().front().found == "16");
}

TEST_CASE("a site file states measured fields of links alone") {
  const auto bad = hw_profiles::read_site(
      R"({"schema": "site/3", "runs": [], "measured": [
          {"field": "gpu.peak_f16", "value": "1 TFLOP/s", "gpu": "", "source": "x"},
          {"field": "node.tree_wait", "value": "soon", "gpu": "", "source": "x"}]})",
      "site.json");
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.problems().size() == 2);
  CHECK_FALSE(hw_profiles::read_site(R"({"schema": "site/3", "runs": []})", "site.json").ok());
}
