// Clusters of several kinds of GPUs: who has which, machines, links between kinds, and files.
#include "hw_profiles/load.hpp"
#include "hw_profiles/mixed.hpp"
#include "tests/catch.hpp"

using namespace hw_profiles;

namespace {

Profile named(const char* name) { return *find_profile(name); }

Profile h100_and_a100(std::int64_t first = 8, std::int64_t second = 16) {
  return mixed({{first, named("h100-sxm-80g")}, {second, named("a100-sxm-80g")}}, false,
               "--gpus").value();
}

std::string refused(std::vector<CountedProfile> kinds, bool stated = false) {
  const auto found = mixed(std::move(kinds), stated, "--gpus");
  REQUIRE_FALSE(found.ok());
  return core::to_text(found.problems());
}

bool told_of(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("ranks have the kinds of GPUs in the order in which they are written") {
  const Profile p = h100_and_a100();
  CHECK(kinds(p) == 2);
  CHECK(p.gpu.id == "h100-sxm-80g");
  CHECK(kind_of_rank(p, 0) == 0);
  CHECK(kind_of_rank(p, 7) == 0);
  CHECK(kind_of_rank(p, 8) == 1);
  CHECK(kind_of_rank(p, 23) == 1);
  CHECK(profile_of_kind(p, 1).gpu.id == "a100-sxm-80g");
  CHECK(gpus_of_kind(p, 0, 24) == 8);
  CHECK(gpus_of_kind(p, 1, 24) == 16);
  CHECK(gpus_text(p, 24) == "8 x h100-sxm-80g + 16 x a100-sxm-80g");
  const Profile one = named("rtx3090");
  CHECK(kinds(one) == 1);
  CHECK(kind_of_rank(one, 100) == 0);
  CHECK(gpus_text(one, 4) == "4 x rtx3090");
}

TEST_CASE("kinds that NVLink joins have machines of their own, cards share one") {
  CHECK(h100_and_a100().node.gpus_per_node == 8);
  const Profile fewer = h100_and_a100(4, 4);
  CHECK(fewer.node.gpus_per_node == 4);
  CHECK(fewer.others.front().profile.node.gpus_per_node == 4);
  const Profile cards =
      mixed({{2, named("rtx4090")}, {2, named("rtx3090")}}, false, "--gpus").value();
  CHECK(cards.node.gpus_per_node >= 4);
  // Machines of two cards each where that is asked for.
  Profile two = named("rtx4090"), other = named("rtx3090");
  REQUIRE(set(two, "node.gpus_per_node", "2", "test").ok());
  REQUIRE(set(other, "node.gpus_per_node", "2", "test").ok());
  CHECK(mixed({{2, two}, {2, other}}, true, "--gpus")->node.gpus_per_node == 2);
}

TEST_CASE("clusters that the planner cannot describe are refused with the way out") {
  const std::string sizes = refused({{8, named("h100-sxm-80g")}, {4, named("a100-sxm-80g")}});
  CHECK(told_of(sizes, "8 h100-sxm-80g in machines of 8, 4 a100-sxm-80g in machines of 8"));
  CHECK(told_of(sizes, "--gpus-per-node 4"));
  CHECK(told_of(refused({{8, named("h100-sxm-80g")}, {8, named("host")}}), "GPUs alone"));
}

TEST_CASE("a group of several kinds has the slower of their links") {
  const Profile p = h100_and_a100();
  const Profile between = between_kinds(p);
  const Node &h = named("h100-sxm-80g").node, &a = named("a100-sxm-80g").node;
  CHECK(between.others.empty());
  CHECK(between.node.internode_bandwidth ==
        std::min(h.internode_bandwidth, a.internode_bandwidth));
  CHECK(between.node.link_bandwidth == std::min(h.link_bandwidth, a.link_bandwidth));
  CHECK(between.node.internode_latency == std::max(h.internode_latency, a.internode_latency));
}

TEST_CASE("a mean GPU has the price and the power of the cluster") {
  const Profile p = h100_and_a100(8, 24);
  const Gpu &h = p.gpu, &a = p.others.front().profile.gpu;
  const Gpu mean = mean_gpu(p, 32);
  REQUIRE((h.price && a.price && h.tdp && a.tdp));
  CHECK(mean.price->value() == Approx(0.25 * h.price->value() + 0.75 * a.price->value()));
  CHECK(mean.tdp->value() == Approx(0.25 * h.tdp->value() + 0.75 * a.tdp->value()));
  Profile unpriced = p;
  unpriced.others.front().profile.gpu.price.reset();
  CHECK_FALSE(mean_gpu(unpriced, 32).price);
}

TEST_CASE("a file keeps all kinds of GPUs, and a damaged one is refused in its place") {
  const Profile p = h100_and_a100();
  const std::string text = to_json_text(p);
  const auto back = profile_from_json_text(text, "p.json");
  REQUIRE(back.ok());
  CHECK(*back == p);
  CHECK_FALSE(*back == named("h100-sxm-80g"));
  const auto problems = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const auto at = changed.find(from);
    REQUIRE(at != std::string::npos);
    const auto read = profile_from_json_text(changed.replace(at, from.size(), to), "p.json");
    REQUIRE_FALSE(read.ok());
    return core::to_text(read.problems());
  };
  CHECK(told_of(problems("\"first_rank\": 8", "\"first_rank\": 0"), "/others/0"));
  CHECK(told_of(problems("\"first_rank\": 8", "\"first_rank\": 8, \"more\": 1"), "more"));
  Profile nested = p;
  nested.others.front().profile.others = p.others;
  CHECK(told_of(core::to_text(profile_from_json_text(to_json_text(nested), "p.json").problems()),
            "without others"));
}
