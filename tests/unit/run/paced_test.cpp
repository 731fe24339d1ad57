#include "exec/run/paced.hpp"

#include "hw_profiles/load.hpp"
#include "tests/catch.hpp"

using namespace exec;

namespace {

planner::Plan plan_on(const char* gpu, std::int64_t per_node) {
  planner::Plan plan;
  plan.profile = hw_profiles::find_profile(gpu).value();
  plan.profile.node.gpus_per_node = static_cast<int>(per_node);
  plan.gpus_per_node = per_node;
  return plan;
}

const Link& between(const LocalOptions& options, int from, int to) {
  for (const LinkBetween& pair : options.pairs)
    if (pair.from == from && pair.to == to) return pair.link;
  FAIL("no such pair");
  return options.pairs.front().link;
}

}  // namespace

TEST_CASE("ranks of one node meet over its links, ranks of two over their share of the network") {
  const planner::Plan plan = plan_on("h100-sxm-80g", 2);
  const LocalOptions options = paced_links({}, plan, 4);
  CHECK_FALSE(options.links.has_value());
  CHECK(options.pairs.size() == 12);
  const hw_profiles::Node& node = plan.profile.node;
  CHECK(between(options, 0, 1).bandwidth == node.link_bandwidth);
  CHECK(between(options, 3, 2).latency == node.link_latency);
  for (const auto& [from, to] : {std::pair(0, 2), {1, 2}, {3, 0}}) {
    CHECK(between(options, from, to).bandwidth.value() ==
          Approx(node.internode_bandwidth.value() * *node.internode_efficiency / 2));
    CHECK(between(options, from, to).latency == node.internode_latency);
  }
  CHECK(to_text(Paced{}) == "the plan's");
}

TEST_CASE("one kind of link paces every pair") {
  const Paced paced{Link{core::BytesPerSecond(1e9), core::Seconds(50e-6)}};
  const LocalOptions options = paced_links(paced, plan_on("rtx3090", 8), 4);
  REQUIRE(options.links.has_value());
  CHECK(options.links->bandwidth.value() == 1e9);
  CHECK(options.pairs.empty());
  CHECK(to_text(paced) == "1.00 GB/s, 50.0 us");
}
