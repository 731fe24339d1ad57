#include "hw_profiles/load.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <unistd.h>

#include "hw_profiles/detect.hpp"
#include "tests/catch.hpp"
#include "tests/replaced.hpp"

namespace {

using namespace hw_profiles;

std::string text_of(const std::string& name) { return to_json_text(*find_profile(name)); }

// A profile's text with the value of one field replaced.
std::string with(const std::string& name, const std::string& key, const std::string& value) {
  std::string text = text_of(name);
  const auto at = text.find("\"" + key + "\": [\"");
  REQUIRE(at != std::string::npos);
  const auto begin = at + key.size() + 6;
  return text.replace(begin, text.find('"', begin) - begin, value);
}

std::string problems_of(const core::Result<Profile>& r) {
  REQUIRE_FALSE(r.ok());
  return core::to_text(r.problems());
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a profile survives its own text, sources and all") {
  for (const std::string& name : profile_names()) {
    const Profile p = *find_profile(name);
    const auto again = profile_from_json_text(to_json_text(p), "plan.json");
    INFO(name);
    REQUIRE(again.ok());
    CHECK(*again == p);
    CHECK(to_json_text(*again) == to_json_text(p));
  }
}

TEST_CASE("values changed after loading survive bit for bit and say so in their source") {
  const unsigned seed = 20240607;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(0.5, 1.0);
  for (int i = 0; i < 50; ++i) {
    Profile p = *find_profile("h100-sxm-80g");
    p.gpu.memory_bandwidth = core::BytesPerSecond(p.gpu.memory_bandwidth.value() * unit(random));
    p.gpu.gemm_efficiency = unit(random);
    p.node.link_latency = core::Seconds(1e-5 * unit(random));
    p.gpu.usable -= core::Bytes(static_cast<std::int64_t>(1e9 * unit(random)));
    const auto again = profile_from_json_text(to_json_text(p), "plan.json");
    REQUIRE(again.ok());
    CHECK(again->gpu == p.gpu);
    CHECK(again->node == p.node);
    CHECK(has(again->lookup("gpu.gemm_efficiency")->source, "changed after loading; was 0.803"));
    CHECK(has(again->lookup("gpu.peak_f32")->source, "glennklockwood"));
  }
}

TEST_CASE("lookup gives the text and source of a field, and nothing for what is not stated") {
  const Profile p = *find_profile("rtx3090");
  REQUIRE(p.lookup("gpu.usable") != nullptr);
  CHECK(p.lookup("gpu.usable")->text == "23.70 GiB");
  CHECK(has(p.lookup("gpu.usable")->source, "out-of-memory"));
  CHECK(p.lookup("gpu.peak_f8") == nullptr);
  CHECK(p.lookup("usable") == nullptr);
}

TEST_CASE("an unknown name suggests the nearest profile") {
  CHECK(has(problems_of(find_profile("rtx309")), "did you mean rtx3090 or rtx3090ti?"));
  CHECK(has(problems_of(find_profile("abacus")), "a100-sxm-80g"));
  // Where several fit and one is usual, who asks has to say that it was taken: names.hpp.
  CHECK(has(problems_of(find_profile("H100")), "write h100-sxm-80g, if that is meant"));
  // Those that begin so come first, in the list and alone in the question.
  const std::string v100 = problems_of(find_profile("v100-"));
  CHECK(has(v100, "found \"v100-\"; write one of v100-pcie-16g, v100-sxm-16g, v100-sxm-32g"));
  CHECK(has(problems_of(find_profile("v10")), "expected one of v100-pcie-16g, v100-sxm-16g, "));
  CHECK(has(problems_of(find_profile("a10x")), "did you mean a10?"));
  CHECK(has(problems_of(find_profile("rtx-a")), "did you mean rtx-a5000 or rtx-a6000?"));
}

TEST_CASE("a profile is read from a file, and a missing file is named") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("planner-profile-" + std::to_string(::getpid()) + ".json");
  std::ofstream(path) << with("rtx3090", "usable", "20 GiB");
  const auto profile = find_profile(path.string());
  std::filesystem::remove(path);
  REQUIRE(profile.ok());
  CHECK(profile->gpu.usable == core::gib(20));
  CHECK(has(problems_of(find_profile(path.string())), path.string()));
  CHECK_FALSE(find_profile("/").ok());
}

TEST_CASE("every wrong value is refused with its place, and all of them at once") {
  const std::pair<const char*, const char*> wrong[] = {
      {"memory_bandwidth", "0 GB/s"},   {"memory_bandwidth", "-936 GB/s"},
      {"memory_bandwidth", "nan GB/s"}, {"memory_bandwidth", "inf GB/s"},
      {"memory_bandwidth", "936 GB"},   {"memory_bandwidth", "936"},
      {"memory_bandwidth", "fast"},     {"memory_bandwidth", "936 GB/s "},
      {"memory_bandwidth", "1e400 GB/s"},
      {"memory", "24 gib"},             {"memory_efficiency", "1.01"},
      {"memory_efficiency", "90 %"},    {"enabled_sms", "82.5"},
      {"enabled_sms", "0"},             {"compute_capability", "86"},
      {"compute_capability", "8.6x"},   {"peer_to_peer", "maybe"},
      {"link", "infiniband"},           {"link_latency", "14 fortnights"},
      {"usable", "25 GiB"},             {"enabled_sms", "85"},
      {"pcie_effective", "32 GB/s"},    {"link", "pcie_p2p"}};
  for (const auto& [key, value] : wrong) {
    INFO(key << " = " << value);
    const std::string found =
        problems_of(profile_from_json_text(with("rtx3090", key, value), "mine.json"));
    CHECK(has(found, "mine.json:"));
    CHECK(has(found, std::string("/") + key));
    CHECK(has(found, value));
  }
  std::string two = with("rtx3090", "memory_bandwidth", "0 GB/s");
  two = replaced(two, "\"tdp\"", "\"tpd\"");
  two = replaced(two, "\"link_latency\"", "\"link_latncy\"");
  const auto result = profile_from_json_text(two, "mine.json");
  const std::string found = problems_of(result);
  CHECK(result.problems().size() == 4);  // zero, two unknown keys, one required field missing
  CHECK(has(found, "tdp"));
  CHECK(has(found, "link_latency"));
}

TEST_CASE("a file from before a field means what was so then, and what is gone is passed over") {
  std::string text = text_of("h100-sxm-80g");
  const auto begin = text.find("\"trains_mtp\": [");
  REQUIRE(begin != std::string::npos);
  const auto end = text.find(']', begin);
  text.replace(begin, end + 1 - begin, "\"tokens_once\": [\"yes\", \"a release of 2026\"]");
  const core::Result<Profile> older = profile_from_json_text(text, "plan.json");
  if (!older.ok()) FAIL(core::to_text(older.problems()));
  CHECK_FALSE(older->framework.trains_mtp);
  CHECK(has(older->lookup("framework.trains_mtp")->source, "older than this field"));
  CHECK(has(problems_of(profile_from_json_text(
                replaced(text, "\"tokens_once\"", "\"tokens_twice\""), "plan.json")),
            "tokens_twice"));
}

TEST_CASE("what is shipped states each field itself") {
  for (const std::string& gpu : profile_names())
    for (const std::string& framework : framework_names()) {
      Profile p = *find_profile(gpu);
      if (!use_framework(p, framework, "test").ok()) continue;
      for (const Sourced& s : p.sources)
        CHECK((has(s.source, "older than this field") ? framework + " " + s.field : "") == "");
    }
}

TEST_CASE("a number without a source is refused") {
  const std::string text = text_of("rtx3090");
  const auto at = text.find("\"tdp\": [");
  const auto end = text.find(']', at);
  for (const char* bare : {"\"350 W\"", "350", "[\"350 W\"]", "[\"350 W\", \"\"]", "[350, \"x\"]",
                           "{\"value\": 350, \"unit\": \"W\"}"}) {
    std::string changed = text;
    changed.replace(at + 7, end - at - 6, bare);
    INFO(bare);
    CHECK(has(problems_of(profile_from_json_text(changed, "mine.json")), "/gpu/tdp"));
  }
}

TEST_CASE("the long form of a number is read as the short one") {
  const std::string text = text_of("rtx3090");
  const auto at = text.find("\"tdp\": [");
  const auto end = text.find(']', at);
  std::string changed = text;
  changed.replace(at + 7, end - at - 6,
                  R"({"value": 340, "unit": "W", "source": "a card of mine"})");
  const auto profile = profile_from_json_text(changed, "mine.json");
  REQUIRE(profile.ok());
  CHECK(profile->gpu.tdp->value() == 340);
  CHECK(profile->lookup("gpu.tdp")->source == "a card of mine");
}

TEST_CASE("text that is no JSON object is a problem, not a crash") {
  for (const char* text : {"", "{", "[]", "null", "3", "{\"gpu\": 3}", "{\"id\": []}"})
    CHECK_FALSE(profile_from_json_text(text, "mine.json").ok());
}

TEST_CASE("set replaces one number and its source, or nothing at all") {
  Profile p = *find_profile("a100-sxm-80g");
  REQUIRE(set(p, "node.internode_bandwidth", "800 Gbps", "--internode-gbps").ok());
  CHECK(p.node.internode_bandwidth.value() == Approx(100e9));
  CHECK(p.lookup("node.internode_bandwidth")->source == "--internode-gbps");
  REQUIRE(set(p, "node.host_memory", "1 TiB", "--host-memory").ok());
  CHECK(p.lookup("node.host_memory")->text == "1 TiB");

  const Profile before = p;
  const auto typo = set(p, "node.internode_bandwith", "1 Gbps", "--x");
  REQUIRE_FALSE(typo.ok());
  CHECK(has(core::to_text(typo.problems()), "node.internode_bandwidth"));
  CHECK_FALSE(set(p, "gpu.usable", "81 GiB", "--usable").ok());        // above nominal
  CHECK_FALSE(set(p, "gpu.memory", "none", "--memory").ok());          // required
  CHECK_FALSE(set(p, "gpu.nvlink_bandwidth", "none", "--x").ok());     // the node's link needs it
  CHECK(p == before);
}

TEST_CASE("a profile names its node, another takes its place, and a plan carries it whole") {
  Profile p = *find_profile("rtx3090");
  CHECK(p.node.id == "geforce-box");
  CHECK(p.node.link == LinkKind::host_staged);
  REQUIRE(use_node(p, "geforce-nvlink-pairs", "--node").ok());
  CHECK(p.node.link == LinkKind::nvlink_pairs);
  CHECK(p.node.pair_bandwidth->value() == Approx(30e9));
  const auto again = profile_from_json_text(to_json_text(p), "plan.json");
  REQUIRE(again.ok());
  CHECK(again->node == p.node);
}

TEST_CASE("every shipped node belongs to a shipped GPU that can have it") {
  for (const std::string& node : node_names()) {
    INFO(node);
    bool held = false;
    for (const std::string& gpu : profile_names()) {
      Profile p = *find_profile(gpu);
      if (use_node(p, node, "--node").ok()) held = held || p.node.id == node;
    }
    CHECK(held);
  }
}

TEST_CASE("a cloud's machine takes the GPU it is sold with and carries its network into a plan") {
  Profile h100 = *find_profile("h100-sxm-80g");
  const Profile before = h100;
  const auto other = use_node(h100, "aws-p4d", "--node");
  REQUIRE_FALSE(other.ok());
  CHECK(has(core::to_text(other.problems()), "a100-sxm-40g"));
  CHECK(h100 == before);
  REQUIRE(use_node(h100, "gcp-a3-mega", "--node").ok());
  CHECK(h100.node.internode_bandwidth.value() == Approx(200e9));
  CHECK(h100.node.nccl_low_latency == std::optional(false));
  CHECK(h100.node.nccl_nvls == std::optional(false));
  CHECK(h100.node.nccl_buffer == std::optional(core::mib(8)));
  const auto again = profile_from_json_text(to_json_text(h100), "plan.json");
  REQUIRE(again.ok());
  CHECK(again->node == h100.node);
  // A card of one's own by the same name's start, as calibration writes it, sits there too.
  Profile mine = *find_profile("b200-sxm-180g");
  mine.gpu.id = "b200-sxm-180g-measured";
  CHECK(use_node(mine, "aws-p6-b200", "--node").ok());
}

TEST_CASE(
    "a node that does not exist or whose links the GPU lacks is refused and changes nothing") {
  Profile p = *find_profile("rtx3080");
  const Profile before = p;
  const auto missing = use_node(p, "dgx-h10", "--node");
  REQUIRE_FALSE(missing.ok());
  CHECK(has(core::to_text(missing.problems()), "did you mean dgx-h100?"));
  const auto links = use_node(p, "dgx-a100", "--node");  // the card has no NVLink
  REQUIRE_FALSE(links.ok());
  CHECK(has(core::to_text(links.problems()), "a link that the GPU has"));
  CHECK_FALSE(use_node(p, "pcie4-p2p", "--node").ok());  // GeForce: no peer access
  CHECK_FALSE(use_node(p, "/nowhere/node.json", "--node").ok());
  CHECK(p == before);
  Profile v100 = *find_profile("v100-sxm-32g");
  CHECK(v100.node.link == LinkKind::nvlink_mesh);
  CHECK_FALSE(set(v100, "node.pair_bandwidth", "none", "test").ok());   // a mesh has pairs
  CHECK_FALSE(set(v100, "node.link_bandwidth", "200 GB/s", "test").ok());  // its wires: 150
  // The bridge of one card pair does not outrun the card's own links.
  const std::string own = p.lookup("node.link_bandwidth")->text;
  CHECK(has(problems_of(profile_from_json_text(
                replaced(text_of("rtx3090"), '"' + own + '"', "\"32 GB/s\""), "mine.json")),
            "at most gpu.pcie_bandwidth"));
  CHECK(has(problems_of(profile_from_json_text("{\"node\": \"dgx\"}", "mine.json")),
            "mine.json:1:10 /node"));
}

TEST_CASE("a framework like another states what differs, and runs key by key") {
  hw_profiles::Profile base = *hw_profiles::find_profile("a100-sxm-80g"), own = base;
  REQUIRE(hw_profiles::use_framework(base, "trainer", "a test").ok());
  REQUIRE(hw_profiles::use_framework(own, "trainer_zero3", "a test").ok());
  CHECK(own.framework.id == "trainer_zero3");
  CHECK(own.framework.kernel_submit == base.framework.kernel_submit);
  CHECK(own.framework.block_host > base.framework.block_host);
  CHECK(own.framework.runs.size() == base.framework.runs.size() + 1);  // of sharding
}

TEST_CASE("before 2022 DeepSpeed's ZeRO-3 gathered nothing ahead of its use") {
  hw_profiles::Profile then = *hw_profiles::find_profile("a100-sxm-80g"), now = then;
  REQUIRE(hw_profiles::use_framework(then, "deepspeed_zero3", "a test", "2021-06").ok());
  REQUIRE(hw_profiles::use_framework(now, "deepspeed_zero3", "a test", "2022-03").ok());
  CHECK(then.framework.overlap_divided == false);
  CHECK_FALSE(now.framework.overlap_divided.has_value());
}
