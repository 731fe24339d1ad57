// What a plan says that NCCL will run.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using namespace planner_test;

namespace {

std::int64_t calls(const CommunicationEntry& e) {
  std::int64_t n = 0;
  for (const program::LibraryCalls& c : e.library) n += c.count;
  return n;
}

const CommunicationEntry& entry(const Plan& plan, std::string_view collective) {
  const auto& all = plan.chosen->communication;
  const auto at = std::ranges::find(all, collective, &CommunicationEntry::collective);
  REQUIRE(at != all.end());
  return *at;
}

}  // namespace

TEST_CASE("a ring's entry says how NCCL is assumed to run each of its calls") {
  const Plan plan =
      pinned_plan(question("gpt2-1.5b", 8, "h100-sxm-80g"), {"data=8", "sharding=zero2"});
  REQUIRE(plan.chosen);
  const CommunicationEntry& e = entry(plan, "all_gather");
  CHECK(calls(e) == e.count);
  core::Bytes payload{0};
  for (const program::LibraryCalls& c : e.library) {
    CHECK(c.algorithm == "ring");
    CHECK(c.channels == 24);
    CHECK(c.smallest * c.count <= c.payload);
    CHECK(c.payload <= c.largest * c.count);
    payload += c.payload;
  }
  CHECK(payload == e.payload);         // padded as the plan counts it
  CHECK(std::ranges::any_of(e.library, [](const auto& c) { return c.protocol == "simple"; }));
}

TEST_CASE("small sums over many nodes are assumed to run through NCCL's trees") {
  Request r = question("gpt2-124m", 64, "h100-sxm-80g");
  r.job.global_batch = 64;
  const Plan plan = pinned_plan(r, {"data=64", "sharding=none", "grad_sync=ring"});
  REQUIRE(plan.chosen);
  const CommunicationEntry& e = entry(plan, "all_reduce");
  CHECK(calls(e) == e.count);
  CHECK(std::ranges::any_of(e.library, [](const auto& c) { return c.algorithm != "ring"; }));
}

TEST_CASE("what NCCL's model does not time has no assumption: the Program's tree, and servers") {
  const Request r = question("gpt2-124m", 4, "h100-sxm-80g");
  const Plan tree = pinned_plan(r, {"data=4", "sharding=none", "grad_sync=tree"});
  REQUIRE(tree.chosen);
  CHECK(std::ranges::any_of(tree.chosen->communication, [](const CommunicationEntry& e) {
    return e.algorithm == "tree" && e.library.empty();
  }));
  const Plan servers =
      pinned_plan(r, {"data=4", "grad_sync=parameter_server", "servers=1"});
  REQUIRE(servers.chosen);
  CHECK(entry(servers, "parameter_server").library.empty());
}
